// Whether this is still the process that made something: handles keep the number of their time.
#pragma once

#include <cstdint>

namespace dpi {

/// Counts the forks that this process descends from.
uint64_t fork_generation();

}  // namespace dpi
