/// Values on which arithmetic over sizes and places goes wrong: for mutations of a bundle's structures.
#pragma once

#include <cstdint>

namespace dpi::test {

inline constexpr uint64_t kOddWords[] = {0,
                                         1,
                                         2,
                                         8,
                                         16,
                                         96,
                                         0x7fffffff,
                                         0xffffffff,
                                         UINT64_MAX,
                                         UINT64_MAX - 1,
                                         UINT64_MAX - 1023,
                                         uint64_t{1} << 63,
                                         uint64_t{1} << 32};

}  // namespace dpi::test
