#include "tests/gpu/tools/tiers_managed.hpp"

#include <cuda_runtime_api.h>

namespace dpi::gpu {

int managed_alloc(size_t bytes, void** out) { return cudaMallocManaged(out, bytes, cudaMemAttachGlobal); }
int managed_free(void* p) { return cudaFree(p); }
bool managed_moves() { return true; }

}  // namespace dpi::gpu
