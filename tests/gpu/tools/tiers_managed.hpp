// Memory whose pages the driver moves to whoever reads them ("unified virtual memory"), for gpu_tiers.
#pragma once

#include <cstddef>

namespace dpi::gpu {

int managed_alloc(size_t bytes, void** out);
int managed_free(void* p);
/// Do pages move here? Not on the emulated device.
bool managed_moves();

}  // namespace dpi::gpu
