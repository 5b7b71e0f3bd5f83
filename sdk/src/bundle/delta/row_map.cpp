#include "bundle/delta/row_map.hpp"

#include <algorithm>
#include <utility>

namespace dpi {
namespace {

/// How many neighbours begin at list[i].
int64_t run_length(const std::vector<int64_t>& list, size_t i) {
  size_t end = i + 1;
  while (end < list.size() && list[end] == list[end - 1] + 1) ++end;
  return static_cast<int64_t>(end - i);
}

size_t place_of(const std::vector<int64_t>& list, int64_t value) {
  return static_cast<size_t>(std::lower_bound(list.begin(), list.end(), value) - list.begin());
}

}  // namespace

RowMap::RowMap(int64_t rows, std::vector<int64_t> set, std::vector<int64_t> zeros, std::vector<int64_t> added,
               const std::vector<int64_t>& gone)
    : rows_(rows), set_(std::move(set)), zeros_(std::move(zeros)), added_(std::move(added)) {
  gone_after_.reserve(gone.size());
  for (size_t i = 0; i < gone.size(); ++i) gone_after_.push_back(gone[i] - static_cast<int64_t>(i));
}

RowMap::Run RowMap::at(int64_t row) const {
  if (whole_) return {From::kDelta, row, rows_ - row};
  const size_t set = place_of(set_, row), zero = place_of(zeros_, row);
  if (set < set_.size() && set_[set] == row)
    return {From::kDelta, static_cast<int64_t>(set), run_length(set_, set)};
  if (zero < zeros_.size() && zeros_[zero] == row) return {From::kZeros, 0, run_length(zeros_, zero)};
  int64_t end = rows_;
  if (set < set_.size()) end = std::min(end, set_[set]);
  if (zero < zeros_.size()) end = std::min(end, zeros_[zero]);
  const int64_t rank =
      row - static_cast<int64_t>(place_of(added_, row));  // among those of the base that stay
  const auto next = std::upper_bound(gone_after_.begin(), gone_after_.end(), rank);
  if (next != gone_after_.end()) end = std::min(end, row + (*next - rank));
  return {From::kBase, rank + (next - gone_after_.begin()), end - row};
}

}  // namespace dpi
