// The store that holds every row in the backend's own memory: one fused arena, and blocks that other models
// may read too; no misses.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/abi/dpi_backend.h"
#include "store/resident/table_blocks.hpp"
#include "store/spread/peer_copies.hpp"
#include "store/table_store.hpp"

namespace dpi {

/// memory_limit: bytes the arena may take, 0 = what the host or device has free; rows that another model
/// holds do not count. api and device must outlive the store. sharing: claims for the tables that plan will
/// be told of. copies: of rows in ranges over several devices.
std::unique_ptr<TableStore> make_resident_store(const dpi_backend_api* api, dpi_backend_device* device,
                                                uint64_t memory_limit, TableSharing sharing = {},
                                                PeerCopyOptions copies = {});

}  // namespace dpi
