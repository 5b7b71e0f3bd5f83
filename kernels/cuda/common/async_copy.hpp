// Copies from global to shared memory that run while the threads compute (cp.async): started in groups by
// each thread, waited for by the same thread; a __syncthreads() then shows the bytes to the block. The
// emulation fills the target with NaN when a copy is started and copies when its group is waited for.
#pragma once

#include <cstring>

#include "kernels/cuda/common/simt.hpp"

#ifdef __CUDACC__
#include <cuda_pipeline_primitives.h>
#endif

namespace dpi::kernels::cuda {

/// 16 bytes to `to`, the first `bytes` of them from `from`, the rest 0. Both 16-byte aligned; `from` is valid
/// memory even when bytes is 0.
__device__ inline void copy16_async(void* to, const void* from, int bytes) {
#ifdef __CUDACC__
  // Not __pipeline_memcpy_async: where the size is known only here, it compiles to a copy for each size.
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
#else
  memset(to, 0xFF, 16);
  emu::queue_copy({to, from, bytes});
#endif
}

/// Ends a group: what this thread has started since the last one.
__device__ inline void end_copy_group() {
#ifdef __CUDACC__
  __pipeline_commit();
#else
  emu::end_copy_group();
#endif
}

/// Returns when all groups of this thread but the last kPending have arrived.
template <int kPending>
__device__ void wait_for_copies() {
#ifdef __CUDACC__
  __pipeline_wait_prior(kPending);
#else
  for (emu::QueuedCopy c; emu::take_copy(kPending, &c);) {
    memcpy(c.to, c.from, static_cast<size_t>(c.bytes));
    memset(static_cast<char*>(c.to) + c.bytes, 0, static_cast<size_t>(16 - c.bytes));
  }
#endif
}

}  // namespace dpi::kernels::cuda
