// The store that holds every row in the backend's own memory: one fused arena, no misses.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/abi/dpi_backend.h"
#include "store/table_store.hpp"

namespace dpi {

/// memory_limit: bytes the arena may take, 0 = what the host or device has free. api and device must outlive
/// the store.
std::unique_ptr<TableStore> make_resident_store(const dpi_backend_api* api, dpi_backend_device* device,
                                                uint64_t memory_limit);

}  // namespace dpi
