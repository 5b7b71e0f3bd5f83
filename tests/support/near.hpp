/// Comparing results: normalised mean square error and largest absolute error, and a verdict that is false
/// when anything is NaN that should not be.
///
///     const Difference d = compare(got, expected);
///     CHECK(d.within(tolerance_of(device)));   INFO(d.text())
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>

namespace dpi::test {

struct Tolerance {
  double largest = 1e-6;       // |got - expected| / max(1, |expected|), each element
  double mean_square = 1e-12;  // sum of squared errors / sum of squares expected
};

struct Difference {
  double largest = 0;
  double mean_square = 0;
  int64_t worst = -1;     // element with the largest error
  int64_t mismatch = -1;  // first element where NaN or infinity meets something else, or the sizes differ

  bool within(const Tolerance& t) const {
    return mismatch < 0 && largest <= t.largest && mean_square <= t.mean_square;
  }
  std::string text() const {
    if (mismatch >= 0)
      return "element " + std::to_string(mismatch) + " is NaN, infinite or missing on one side only";
    return "largest error " + std::to_string(largest) + " at " + std::to_string(worst) + ", mean square " +
           std::to_string(mean_square);
  }
};

/// NaN equals NaN and an infinity equals itself; neither equals anything else.
inline Difference compare(std::span<const float> got, std::span<const float> expected) {
  Difference d;
  if (got.size() != expected.size()) {
    d.mismatch = static_cast<int64_t>(std::min(got.size(), expected.size()));
    return d;
  }
  double errors = 0, squares = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double g = got[i], e = expected[i];
    if (!std::isfinite(g) || !std::isfinite(e)) {
      const bool same = (std::isnan(g) && std::isnan(e)) || g == e;
      if (same) continue;
      d.mismatch = static_cast<int64_t>(i);
      return d;
    }
    const double error = std::fabs(g - e) / std::fmax(1, std::fabs(e));
    if (error > d.largest) d.worst = static_cast<int64_t>(i);
    d.largest = std::fmax(d.largest, error);  // both finite here
    errors += (g - e) * (g - e);
    squares += e * e;
  }
  d.mean_square = squares > 0 ? errors / squares : errors;
  return d;
}

/// What an op on `device` may differ from float64 arithmetic: `ref` rounds once at the end; others add in
/// float32.
inline Tolerance tolerance_of(const std::string& device) {
  return device == "ref" ? Tolerance{1e-6, 1e-12} : Tolerance{6e-6, 2e-12};
}

}  // namespace dpi::test
