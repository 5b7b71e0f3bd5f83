// Which row each line of a size class holds, as the device has it or is about to: the host's own copy of the
// tags, and who gives way to whom. No device is called from here.
//
// A row that is read often comes for the coldest of its set, if it is warmer than that one (heats:
// tiered/copied_places.hpp, halved now and then). Fixed rows never give way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <dpi/kernels/row_cache.hpp>

#include "store/tiered/copied_places.hpp"

namespace dpi::device_cache {

class Lines {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit Lines(uint32_t sets) : sets_(sets), tags_(size_t{sets} * kernels::kCacheWays, kEmpty) {}
  static uint64_t bytes(uint32_t sets) { return uint64_t{sets} * kernels::kCacheWays * sizeof(uint32_t); }

  /// The line that holds a row, or kNone.
  uint32_t line_of(int32_t row) const;
  int64_t size() const { return static_cast<int64_t>(tags_.size()); }

  /// A line for a row that none holds, taken out of use until give or free. old: the row it holds, or -1.
  struct Taken {
    uint32_t line = kNone;  // there is none
    int32_t old = -1;
  };
  /// in_empty: no row is to give way.
  Taken take(int32_t row, const tiered::CopiedPlaces& rows, bool in_empty);
  /// The same without heats: an empty line, which holds the row then. kNone: its set is full, or has it.
  uint32_t take_empty(int32_t row);
  void give(uint32_t line, int32_t row) { tags_[line] = static_cast<uint32_t>(row) + 1; }
  void free(uint32_t line) { tags_[line] = kEmpty; }
  /// Frees all, none of which is taken; each(row) that one held.
  template <class Each>
  void clear(Each&& each) {
    for (uint32_t& tag : tags_) {
      if (tag != kEmpty) each(static_cast<int32_t>(tag - 1));
      tag = kEmpty;
    }
  }

 private:
  static constexpr uint32_t kEmpty = 0, kTaken = UINT32_MAX;  // rows are int32: no tag is that large
  uint32_t sets_;
  std::vector<uint32_t> tags_;
};

}  // namespace dpi::device_cache
