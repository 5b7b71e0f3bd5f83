// The kernels of launches some of whose tables have a cache. Fewer than lookup/kernels.hpp has: reads across
// the bus decide how long these take. Included by lookup/cached_f4.cu and its two siblings.
#pragma once

#include "kernels/cuda/lookup/kernels.hpp"

namespace dpi::kernels::cuda {

/// One-hot and numeric fields, written only.
template <int kVec, bool kNarrow, int kCapacity>
__global__ void __launch_bounds__(kLookupThreads, 2)
    cached_copy_kernel(const __grid_constant__ Work<kCapacity, CachedLaunch> w) {
  copy_columns<kVec, kNarrow, 4>(w.head, view_of(w), blockIdx.x * blockDim.x + threadIdx.x);
}

/// Bags, rows and copies, whichever there are.
template <int kVec, bool kNarrow, int kCapacity>
__global__ void __launch_bounds__(kLookupThreads, 2)
    cached_all_kernel(const __grid_constant__ Work<kCapacity, CachedLaunch> w) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t before_rows = w.head.bag_blocks;
  const int32_t before_copy = before_rows + w.head.row_blocks;
  if (block < before_rows) {
    pool_bags<kVec, kNarrow>(w.head, view_of(w), block * warps_of_block() + warp_of_block(),
                             before_rows * warps_of_block());
  } else if (block < before_copy) {
    sum_rows<kVec, kNarrow, true>(w.head, view_of(w),
                                  (block - before_rows) * warps_of_block() + warp_of_block(),
                                  w.head.row_blocks * warps_of_block());
  } else {
    const auto thread = static_cast<uint32_t>(block - before_copy) * blockDim.x + threadIdx.x;
    copy_columns<kVec, kNarrow, 4>(w.head, view_of(w), thread);
  }
}

template <int kVec, bool kNarrow, int kCapacity>
int start_cached_sized(const LookupRequest& q, Stream stream) {
  Work<kCapacity, CachedLaunch> w{};
  fill_work(q, &w);
  const dim3 grid(static_cast<unsigned>(q.head.bag_blocks + q.head.row_blocks + q.head.copy_blocks));
  const dim3 block(static_cast<unsigned>(q.block));
  if (q.head.bag_blocks > 0 || q.head.row_blocks > 0)
    return launch(cached_all_kernel<kVec, kNarrow, kCapacity>, grid, block, stream, w);
  return launch(cached_copy_kernel<kVec, kNarrow, kCapacity>, grid, block, stream, w);
}

template <int kVec, bool kNarrow>
int start_cached_form(const LookupRequest& q, Stream stream) {
  if (q.n_records <= kSmallRecords || q.head.records != nullptr)
    return start_cached_sized<kVec, kNarrow, kSmallRecords>(q, stream);
  return start_cached_sized<kVec, kNarrow, kLargeRecords>(q, stream);
}

}  // namespace dpi::kernels::cuda
