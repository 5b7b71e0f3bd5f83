// Which of several measured lines of a tuning table serves a call of so many rows.
#pragma once

#include <cstdint>

namespace dpi::kernels::cuda {

/// A line serves calls of a quarter to four times the rows that it was measured with: what is fastest for
/// 2048 rows says little about 64, where the rules of estimates.hpp know better.
constexpr int64_t kTunedReach = 4;
constexpr int64_t kBeyondReach = INT64_MAX;

/// How far a line measured with `measured` rows is from a call of `rows`: the least is the one to take. Lines
/// of at least as many rows come first, then those of fewer, then those for any number (measured < 0).
/// kBeyondReach: not to be taken. Neither number is above 2^40.
constexpr int64_t tuned_distance(int64_t measured, int64_t rows) {
  if (measured < 0) return kBeyondReach - 1;
  if (measured > kTunedReach * rows || rows > kTunedReach * measured) return kBeyondReach;
  return measured >= rows ? measured - rows : (int64_t{1} << 50) + (rows - measured);
}

}  // namespace dpi::kernels::cuda
