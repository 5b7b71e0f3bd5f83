// Checks that tables fit into memory.
#pragma once

#include <cstdint>

#include "base/status.hpp"

namespace dpi {

/// kOutOfMemory where tables of so many bytes are more than the limit, or without one (0) than what is
/// available of the host's or the device's memory; 0 = nobody knows.
Status check_table_budget(uint64_t bytes, uint64_t limit, uint64_t available, bool on_host);

}  // namespace dpi
