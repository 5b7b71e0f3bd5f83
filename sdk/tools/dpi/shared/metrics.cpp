#include "sdk/tools/dpi/shared/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>

namespace dpi::tool {

namespace {
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool any_nan(const std::vector<float>& v) {
  return std::any_of(v.begin(), v.end(), [](float x) { return std::isnan(x); });
}
}  // namespace

double auc(const std::vector<float>& score, const std::vector<float>& label) {
  if (any_nan(score)) return kNan;
  std::vector<size_t> order(score.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return score[a] < score[b]; });
  // Twice the number of (positive, negative) pairs in the right order, ties counting one: exact in integers.
  uint64_t pairs2 = 0, negatives = 0, positives = 0;
  for (size_t i = 0; i < order.size();) {
    uint64_t tied_negatives = 0, tied_positives = 0;
    const float value = score[order[i]];
    for (; i < order.size() && score[order[i]] == value; ++i)
      ++(label[order[i]] != 0 ? tied_positives : tied_negatives);
    pairs2 += tied_positives * (2 * negatives + tied_negatives);
    negatives += tied_negatives;
    positives += tied_positives;
  }
  if (negatives == 0 || positives == 0) return kNan;
  return static_cast<double>(pairs2) /
         (2.0 * static_cast<double>(positives) * static_cast<double>(negatives));
}

double log_loss(const std::vector<float>& score, const std::vector<float>& label) {
  if (score.empty() || any_nan(score)) return kNan;
  constexpr double kEps = std::numeric_limits<double>::epsilon();
  double sum = 0;
  for (size_t i = 0; i < score.size(); ++i) {
    const double p = std::clamp(static_cast<double>(score[i]), kEps, 1 - kEps);
    sum -= label[i] != 0 ? std::log(p) : std::log1p(-p);
  }
  return sum / static_cast<double>(score.size());
}

double percentile(std::vector<double>* samples, double p) {
  if (samples->empty()) return kNan;
  std::sort(samples->begin(), samples->end());
  const double rank = std::ceil(p * static_cast<double>(samples->size()));
  return (*samples)[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

}  // namespace dpi::tool
