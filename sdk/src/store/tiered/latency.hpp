// Times by logarithmic class, four to an octave: a quantile is at most 19 % above the true one.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace dpi::tiered {

class LatencyHistogram {
 public:
  void add(uint64_t ns) { ++counts_[index(ns)]; }
  /// The upper end of the class in which the quantile lies; 0 without times.
  uint64_t quantile(double q) const {
    uint64_t all = 0;
    for (const uint64_t c : counts_) all += c;
    if (all == 0) return 0;
    const auto rank = static_cast<uint64_t>(q * static_cast<double>(all - 1));
    uint64_t before = 0;
    size_t i = 0;
    while ((before += counts_[i]) <= rank) ++i;
    return top(i);
  }

 private:
  static size_t index(uint64_t ns) {
    if (ns < 4) return ns;
    const int octave = std::bit_width(ns) - 1;
    return static_cast<size_t>(octave - 1) * 4 + ((ns >> (octave - 2)) & 3);
  }
  static uint64_t top(size_t i) {
    if (i < 4) return i;
    const auto octave = i / 4 + 1;
    return ((4 + i % 4 + 1) << (octave - 2)) - 1;
  }
  std::array<uint64_t, 252> counts_{};
};

}  // namespace dpi::tiered
