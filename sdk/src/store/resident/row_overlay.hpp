// Which rows of a version lie elsewhere: row -> the spare row behind the table that has it. Immutable. A row
// that does not is told by one bit of a small filter.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace dpi {

struct MovedRow {
  int32_t row = 0;
  int32_t place = 0;  // behind the rows of the table
};

class RowOverlay {
 public:
  RowOverlay() = default;
  /// moved: by rising row, each once.
  explicit RowOverlay(std::vector<MovedRow> moved) : moved_(std::move(moved)) {
    if (moved_.empty()) return;
    const size_t slots = std::bit_ceil(moved_.size() * 2);
    bits_.assign(slots / 8 + 1, 0);  // eight a slot
    slots_.assign(slots, MovedRow{-1, 0});
    shift_ = 64 - std::countr_zero(slots);
    for (const MovedRow& m : moved_) {
      const uint64_t h = hash(m.row);
      bits_[bit_of(h) / 64] |= uint64_t{1} << (bit_of(h) % 64);
      size_t at = h >> shift_;
      while (slots_[at].row >= 0) at = (at + 1) & (slots - 1);
      slots_[at] = m;
    }
  }

  bool empty() const { return moved_.empty(); }
  std::span<const MovedRow> moved() const { return moved_; }
  bool has(int32_t row) const { return !empty() && place(row) != row; }
  /// Where the row is. Not of an empty one.
  int32_t place(int32_t row) const noexcept {
    const uint64_t h = hash(row), bit = bit_of(h);
    if ((bits_[bit / 64] >> (bit % 64) & 1) == 0) return row;
    for (size_t at = h >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].row == row) return slots_[at].place;
      if (slots_[at].row < 0) return row;
    }
  }

 private:
  static uint64_t hash(int32_t row) { return static_cast<uint64_t>(row) * 0x9E3779B97F4A7C15u; }
  uint64_t bit_of(uint64_t h) const { return h >> (shift_ - 3); }

  std::vector<MovedRow> moved_;
  std::vector<uint64_t> bits_;
  std::vector<MovedRow> slots_;  // row -1 = free
  int shift_ = 61;
};

}  // namespace dpi
