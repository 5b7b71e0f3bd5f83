// How a byte budget on a device is spent on lines of a cache over the host tier. Pure arithmetic: what is
// forecast is what is taken.
//
// A line costs its row and a tag of 4 bytes; lines come in sets of 16. Size classes share the budget by the
// bytes of their places at first, and as cut_lines is told later; none gets more than a quarter more lines
// than it has rows, since sets are not equally full. A class without a set has its rows read where they are.
#pragma once

#include <cstdint>
#include <vector>

#include <dpi/kernels/row_cache.hpp>

#include "store/tiered/arena.hpp"
#include "store/tiered/copied_places.hpp"

namespace dpi::tiered {

/// Changes to lines of one class that are under way at a time.
inline constexpr int32_t kMostCacheChanges = 512;

struct LinePlan {
  struct Class {
    uint32_t sets = 0;
    uint32_t most_sets = 0;  // of the block, if the class had all of it
    int64_t set_bytes = 0;
    uint64_t tags_at = 0;  // in the block
    uint64_t lines_at = 0;
    int64_t lines() const { return int64_t{sets} * kernels::kCacheWays; }
    int64_t most_lines() const { return int64_t{most_sets} * kernels::kCacheWays; }
  };
  std::vector<Class> classes;
  uint64_t device_bytes = 0;  // of the block: the classes' RowCaches, tags and lines
  int64_t room = 0;           // of it for sets, however it is cut

  bool any() const { return device_bytes > 0; }
};

LinePlan plan_lines(const ArenaPlan& plan, int32_t reserved, uint64_t budget);
/// Can the block be cut so: no class has more than most_sets, and all of them fit the room.
bool fits(const LinePlan& lines, const std::vector<uint32_t>& sets);
/// The same block with so many sets of each class, which fit it.
LinePlan cut_lines(const ArenaPlan& plan, const LinePlan& lines, const std::vector<uint32_t>& sets);
CopiedPlaces::Shape copied_shape(const ArenaPlan& plan, const LinePlan& lines, size_t size_class,
                                 int32_t reserved);

}  // namespace dpi::tiered
