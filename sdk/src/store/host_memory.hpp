// What the host has free.
#pragma once

#include <cstdint>

namespace dpi {

/// MemAvailable of this host in bytes, 0 when unknown.
uint64_t host_memory_available();

}  // namespace dpi
