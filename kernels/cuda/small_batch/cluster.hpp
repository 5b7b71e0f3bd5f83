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
struct Place {
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
__device__ inline void cluster_sync(const Place& p) {
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
__device__ T* at_rank(const Place& p, T* here, int32_t rank) {
#if __CUDA_ARCH__ >= 900
  if (p.ranks > 1)
    return cooperative_groups::this_cluster().map_shared_rank(here, static_cast<unsigned>(rank));
#endif
  static_cast<void>(p);
  static_cast<void>(rank);
  return here;
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
T* at_rank(const Place& p, T* here, int32_t rank) {
  const int64_t away = int64_t{rank - p.rank} * p.rank_bytes;
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(here) + static_cast<uintptr_t>(away));
}

inline void wait_for_predecessor() {}

#endif

template <class T>
__device__ T* shared_at(const Place& p, int32_t offset) {
  return reinterpret_cast<T*>(p.shared + offset);
}

}  // namespace dpi::kernels::cuda::small_batch
