// Users of chunks, by what the user cache did. Every count only ever grows.
#pragma once

#include <cstdint>

namespace dpi {

struct UserCounts {
  uint64_t hits = 0;     // not computed
  uint64_t misses = 0;   // new: computed, and kept from now on
  uint64_t repeats = 0;  // kept, and computed all the same: another user of the chunk was new
  uint64_t drops = 0;    // computed and not kept: too long, or no entry was free
};

}  // namespace dpi
