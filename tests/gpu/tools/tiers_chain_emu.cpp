// The kernels of gpu_tiers as C++ for the emulated device, and memory that both sides move pages of: there is
// none there, so host memory that kernels reach stands for it.
#include "backend/cuda/layer/device_layer.hpp"
#include "tests/gpu/tools/tiers_chain.cu"
#include "tests/gpu/tools/tiers_managed.hpp"

namespace dpi::gpu {

int managed_alloc(size_t bytes, void** out) { return backend::layer::pinned_alloc(bytes, out); }
int managed_free(void* p) { return backend::layer::pinned_free(p); }
bool managed_moves() { return false; }

}  // namespace dpi::gpu
