// How large a host tier of given tables and options is, told before anything is taken (tier_bytes and its
// neighbours of tiered_store.hpp) and when it is made.
#pragma once

#include <cstdint>
#include <vector>

#include "store/host_tier/tiered_store.hpp"
#include "store/tiered/host_cache.hpp"

namespace dpi {

/// Places in front of all others, for the rows that stand for padding.
int32_t reserved_places(const std::vector<StoreTable>& tables);

tiered::CacheOptions cache_options(const TierOptions& options, int32_t reserved);

/// Do kernels read the rows from memory that is not the device's own? kUnsupported when they cannot, or when
/// options ask for what the device has not.
Result<bool> reads_host_rows(const dpi_backend_api& api, dpi_backend_device* device,
                             const TierOptions& options);

}  // namespace dpi
