// Users of calls, by what the user cache did. Every count only ever grows.
#pragma once

#include <cstdint>

namespace dpi {

struct UserCounts {
  uint64_t hits = 0;    // not computed
  uint64_t misses = 0;  // computed and kept
  uint64_t drops = 0;   // computed and not kept
};

}  // namespace dpi
