// Tells a forked child from the process that made a handle: each handle keeps the generation it was made in.
#pragma once

#include <cstdint>

namespace dpi {

/// Counts the forks that this process descends from.
uint64_t fork_generation();

}  // namespace dpi
