// How far the scores of two models are apart: their differences, and what changes places.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace dpi::tool {

/// Means, and percentiles (nearest rank) of |after - before|. NaN where there is no row.
struct ScoreShift {
  double mean_before = 0, mean_after = 0;
  double mean = 0, median = 0, p99 = 0, largest = 0;
  size_t largest_row = 0;  // the first of them
};

/// Scores are finite, one of each per row.
ScoreShift score_shift(std::span<const float> before, std::span<const float> after);

/// Pairs of rows in one request: those whose scores before differ, and those of them that are the other way
/// round afterwards. A pair with equal scores afterwards has not changed places.
struct OrderShift {
  int64_t requests = 0;       // with two rows or more
  int64_t first_changed = 0;  // requests whose first row before is not among the first ones after
  int64_t pairs = 0, swapped = 0;
};

/// request: of each row, any number. Time: n log n.
OrderShift order_shift(std::span<const float> before, std::span<const float> after,
                       std::span<const int64_t> request);

/// The rows that differ most in any of several columns, the worst first: at most `most`, none that is equal.
std::vector<size_t> worst_rows(const std::vector<std::vector<float>>& before,
                               const std::vector<std::vector<float>>& after, size_t most);

}  // namespace dpi::tool
