// The size from which on memory is aligned to a huge page and the kernel is asked to back it with some.
#pragma once

#include <cstddef>

namespace dpi {

inline constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace dpi
