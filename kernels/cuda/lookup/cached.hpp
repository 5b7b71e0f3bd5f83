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
  look_up_all<kVec, kNarrow>(w.head, view_of(w), [&w] { return staged_view(w); });
}

/// The same with records in device memory.
template <int kVec, bool kNarrow, class AnyWork>
__global__ void __launch_bounds__(kLookupThreads, 2) cached_many_kernel(const __grid_constant__ AnyWork w) {
  const View view = {w.head.records, view_of(w).map};
  const RowView<Record> rows = {w.head.records + w.head.copy.count, view};
  look_up_all<kVec, kNarrow>(w.head, view, [&rows] { return rows; });
}

template <int kVec, bool kNarrow, int kCapacity>
int start_cached_sized(const LookupRequest& q, Stream stream) {
  Work<kCapacity, CachedLaunch> w{};
  fill_work(q, &w);
  const dim3 grid(static_cast<unsigned>(q.head.bag_blocks + q.head.row_blocks + q.head.copy_blocks));
  const dim3 block(static_cast<unsigned>(q.block));
  if (q.head.row_blocks > 0 && q.head.records != nullptr) {
    if constexpr (kCapacity == kSmallRecords)
      return launch(cached_many_kernel<kVec, kNarrow, Work<kCapacity, CachedLaunch>>, grid, block, stream, w);
  }
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
