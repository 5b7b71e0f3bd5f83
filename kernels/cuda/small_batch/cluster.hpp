// A block of a cluster, as the small-batch kernel sees it: its rank, the shared memory of every rank, the
// barrier of all of them. Clusters of blocks exist from sm_90 on; before, and on the host's emulation of one
// rank, a cluster is one block. The emulation runs a cluster as one block whose threads' y is the rank, so
// that the division of work among ranks, and the barriers between them, are tested.
#pragma once

#include "kernels/cuda/common/simt.hpp"
#include "kernels/cuda/small_batch/program.hpp"

#ifdef __CUDACC__
#include <cooperative_groups.h>
#endif

namespace dpi::kernels::cuda::small_batch {

/// Where a thread stands. `shared`: the rank's own memory; rows: of the tile that are in the batch.
struct ThreadInfo {
  char* shared;
  int64_t first_row;
  int32_t rows;
  int32_t rank;
  int32_t ranks;
  int32_t rank_bytes;  // of shared memory
  int32_t thread;
  int32_t threads;
  int32_t warp;
  int32_t warps;
  int32_t lane;
};

#ifdef __CUDACC__

__device__ inline int32_t cluster_rank() {
#if __CUDA_ARCH__ >= 900
  return static_cast<int32_t>(cooperative_groups::this_cluster().block_rank());
#else
  return 0;
#endif
}

__device__ inline int32_t cluster_tile(int32_t ranks) { return static_cast<int32_t>(blockIdx.x) / ranks; }

/// Barrier of all threads of all ranks; what they wrote to any rank's shared memory is seen after it.
__device__ inline void cluster_sync(const ThreadInfo& p) {
#if __CUDA_ARCH__ >= 900
  if (p.ranks > 1) {
    cooperative_groups::this_cluster().sync();
    return;
  }
#endif
  static_cast<void>(p);
  __syncthreads();
}

/// The same place in the shared memory of another rank.
template <class T>
__device__ T* at_rank(const ThreadInfo& p, T* here, int32_t rank) {
#if __CUDA_ARCH__ >= 900
  if (p.ranks > 1)
    return cooperative_groups::this_cluster().map_shared_rank(here, static_cast<unsigned>(rank));
#endif
  static_cast<void>(p);
  static_cast<void>(rank);
  return here;
}

/// The same of an address in the window of shared memory.
__device__ inline uint32_t window_at_rank(uint32_t here, int32_t rank) {
  uint32_t there = here;
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
#endif
  return there;
}

template <class T>
__device__ void store_in_window(uint32_t at, const T& x) {
#if __CUDA_ARCH__ >= 900
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16);
  if constexpr (sizeof(T) == 2) {
    uint16_t w;
    memcpy(&w, &x, sizeof(w));
    asm volatile("st.shared::cluster.u16 [%0], %1;" ::"r"(at), "h"(w) : "memory");
  } else {
    uint32_t w[sizeof(T) / 4];
    memcpy(w, &x, sizeof(w));
    if constexpr (sizeof(T) == 4)
      asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(at), "r"(w[0]) : "memory");
    if constexpr (sizeof(T) == 8)
      asm volatile("st.shared::cluster.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(w[0]), "r"(w[1]) : "memory");
    if constexpr (sizeof(T) == 16)
      asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(w[0]), "r"(w[1]),
                   "r"(w[2]), "r"(w[3])
                   : "memory");
  }
#else
  static_cast<void>(at);
  static_cast<void>(x);
#endif
}

/// x at the same place of all ranks, the own one first, so that they do not all store to one at a time.
template <class T>
__device__ void store_to_ranks(const ThreadInfo& p, T* here, const T& x) {
#if __CUDA_ARCH__ >= 900
  if (p.ranks > 1) {
    const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(here));
    DPI_UNROLL
    for (int32_t r = 0; r < kMaxRanks; ++r) {
      if (r < p.ranks) store_in_window(window_at_rank(at, (p.rank + r) & (p.ranks - 1)), x);
    }
    return;
  }
#endif
  *here = x;
}

/// Waits for the kernel before this one, where the launch let them overlap; else it is there already.
__device__ inline void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

#else

inline int32_t cluster_rank() { return static_cast<int32_t>(threadIdx.y); }
inline int32_t cluster_tile(int32_t) { return static_cast<int32_t>(blockIdx.x); }
#define cluster_sync(place) __syncthreads()

template <class T>
T* at_rank(const ThreadInfo& p, T* here, int32_t rank) {
  const int64_t away = int64_t{rank - p.rank} * p.rank_bytes;
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(here) + static_cast<uintptr_t>(away));
}

template <class T>
void store_to_ranks(const ThreadInfo& p, T* here, const T& x) {
  for (int32_t r = 0; r < p.ranks; ++r) *at_rank(p, here, r) = x;
}

inline void wait_for_predecessor() {}

#endif

template <class T>
__device__ T* shared_at(const ThreadInfo& p, int32_t offset) {
  return reinterpret_cast<T*>(p.shared + offset);
}

}  // namespace dpi::kernels::cuda::small_batch
