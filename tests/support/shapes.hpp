/// The sizes that hurt: nothing, one, around a warp or a vector, primes.
#pragma once

#include <cstdint>

namespace dpi::test {

inline constexpr int64_t kAwkwardSizes[] = {0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 131};

}  // namespace dpi::test
