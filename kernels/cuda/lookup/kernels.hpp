// The kernels of the fused lookup, for one form of vector, and their launch. A kernel holds only the code
// that its launches use, so that a plain copy keeps its few registers. Included by lookup/f4.cu and its two
// siblings.
#pragma once

#include "kernels/cuda/lookup/launch.hpp"
#include "kernels/cuda/lookup/sums.hpp"

namespace dpi::kernels::cuda {

constexpr int kLookupThreads = 256;  // of a block, at most

template <class AnyWork>
__device__ __forceinline__ View view_of(const AnyWork& w) {
  const bool mapped = w.head.n_units <= kUnitMap && w.head.copy.count <= 256;
  return {w.head.records != nullptr ? w.head.records : w.records, mapped ? w.map : nullptr};
}

__device__ __forceinline__ int32_t warp_of_block() { return static_cast<int32_t>(threadIdx.x) / kWarp; }
__device__ __forceinline__ int32_t warps_of_block() { return static_cast<int32_t>(blockDim.x) / kWarp; }

/// One-hot and numeric fields, written only.
template <int kVec, bool kNarrow, int kCapacity>
__global__ void __launch_bounds__(kLookupThreads, kVec == 4 ? 4 : 3)
    lookup_copy_kernel(const __grid_constant__ Work<kCapacity> w) {
  copy_columns<kVec, kNarrow, 4>(w.head, view_of(w), blockIdx.x * blockDim.x + threadIdx.x);
}

/// The same with 8 rows in flight.
template <int kVec, bool kNarrow, int kCapacity>
__global__ void __launch_bounds__(kLookupThreads, 2)
    lookup_copy8_kernel(const __grid_constant__ Work<kCapacity> w) {
  copy_columns<kVec, kNarrow, 8>(w.head, view_of(w), blockIdx.x * blockDim.x + threadIdx.x);
}

/// The same and pooled fields, written only.
template <int kVec, bool kNarrow, int kCapacity>
__global__ void __launch_bounds__(kLookupThreads, 2)
    lookup_bags_kernel(const __grid_constant__ Work<kCapacity> w) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  if (block < w.head.bag_blocks) {
    pool_bags<kVec, kNarrow>(w.head, view_of(w), block * warps_of_block() + warp_of_block(),
                             w.head.bag_blocks * warps_of_block());
    return;
  }
  const auto thread = static_cast<uint32_t>(block - w.head.bag_blocks) * blockDim.x + threadIdx.x;
  copy_columns<kVec, kNarrow, 4>(w.head, view_of(w), thread);
}

/// A block's copy of the records of `rows` blocks, which are among the arguments.
template <int kCapacity, class Head>
__device__ __forceinline__ RowView<RowRecord> staged_view(const Work<kCapacity, Head>& w) {
  DPI_SHARED(Word4, staged, kCapacity * sizeof(RowRecord) / sizeof(Word4));
  return {staged_records(w.head, w.records, staged), view_of(w)};
}

/// Sums per row, with one-hot fields only, and their columns.
template <int kVec, bool kNarrow, int kCapacity>
__global__ void __launch_bounds__(kLookupThreads, kVec == 4 ? 4 : 3)
    lookup_rows_kernel(const __grid_constant__ Work<kCapacity> w) {
  sum_rows<kVec, kNarrow, false>(w.head, staged_view(w),
                                 static_cast<int32_t>(blockIdx.x) * warps_of_block() + warp_of_block(),
                                 w.head.row_blocks * warps_of_block());
}

/// The same and copies.
template <int kVec, bool kNarrow, int kCapacity>
__global__ void __launch_bounds__(kLookupThreads, 2)
    lookup_mixed_kernel(const __grid_constant__ Work<kCapacity> w) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  if (block < w.head.row_blocks) {
    sum_rows<kVec, kNarrow, false>(w.head, staged_view(w), block * warps_of_block() + warp_of_block(),
                                   w.head.row_blocks * warps_of_block());
    return;
  }
  const auto thread = static_cast<uint32_t>(block - w.head.row_blocks) * blockDim.x + threadIdx.x;
  copy_columns<kVec, kNarrow, 4>(w.head, view_of(w), thread);
}

/// Bags, rows and copies, whichever there are. rows_view(): of the `rows` blocks.
template <int kVec, bool kNarrow, class Head, class RowsView>
__device__ __forceinline__ void look_up_all(const Head& w, const View& view, const RowsView& rows_view) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  const int32_t before_rows = w.bag_blocks;
  const int32_t before_copy = before_rows + w.row_blocks;
  if (block < before_rows) {
    pool_bags<kVec, kNarrow>(w, view, block * warps_of_block() + warp_of_block(),
                             before_rows * warps_of_block());
  } else if (block < before_copy) {
    sum_rows<kVec, kNarrow, true>(w, rows_view(), (block - before_rows) * warps_of_block() + warp_of_block(),
                                  w.row_blocks * warps_of_block());
  } else {
    const auto thread = static_cast<uint32_t>(block - before_copy) * blockDim.x + threadIdx.x;
    copy_columns<kVec, kNarrow, 4>(w, view, thread);
  }
}

template <int kVec, bool kNarrow, int kCapacity>
__global__ void __launch_bounds__(kLookupThreads, 2)
    lookup_all_kernel(const __grid_constant__ Work<kCapacity> w) {
  look_up_all<kVec, kNarrow>(w.head, view_of(w), [&w] { return staged_view(w); });
}

/// The same with records in device memory, which may be more than shared memory holds.
template <int kVec, bool kNarrow, class AnyWork>
__global__ void __launch_bounds__(kLookupThreads, 2) lookup_many_kernel(const __grid_constant__ AnyWork w) {
  const View view = {w.head.records, view_of(w).map};
  const RowView<Record> rows = {w.head.records + w.head.copy.count, view};
  look_up_all<kVec, kNarrow>(w.head, view, [&rows] { return rows; });
}

template <class AnyWork>
void fill_work(const LookupRequest& q, AnyWork* w) {
  static_cast<Launch&>(w->head) = q.head;
  int32_t n = 0;
  q.build->for_each([&](RecordRole role, const Record& r) {
    if (q.head.records == nullptr) w->records[n] = r;
    ++n;
    if (role != RecordRole::kCopy || q.head.n_units > kUnitMap || q.head.copy.count > 256) return;
    const int32_t units = q.build->units_of(role, r);
    for (int32_t u = 0; u < units; ++u)
      w->map[r.first_unit + u] = static_cast<uint8_t>(n - 1 - q.head.copy.begin);
  });
}

template <int kVec, bool kNarrow, int kCapacity>
int start_sized(const LookupRequest& q, Stream stream) {
  Work<kCapacity> w{};
  fill_work(q, &w);
  const dim3 grid(static_cast<unsigned>(q.head.bag_blocks + q.head.row_blocks + q.head.copy_blocks));
  const dim3 block(static_cast<unsigned>(q.block));
  const bool bags = q.head.bag_blocks > 0 || q.head.vector_bags.count > 0 || q.head.scalar_bags.count > 0;
  const bool wide = q.head.row_width > kVec * kWarp || q.head.n_channels > kWarp;
  if (q.head.row_blocks > 0 && q.head.records != nullptr) {
    if constexpr (kCapacity == kSmallRecords)
      return launch(lookup_many_kernel<kVec, kNarrow, Work<kCapacity>>, grid, block, stream, w);
  }
  if (q.head.row_blocks > 0 && (bags || wide))
    return launch(lookup_all_kernel<kVec, kNarrow, kCapacity>, grid, block, stream, w);
  if (q.head.row_blocks > 0 && q.head.copy_blocks > 0)
    return launch(lookup_mixed_kernel<kVec, kNarrow, kCapacity>, grid, block, stream, w);
  if (q.head.row_blocks > 0)
    return launch(lookup_rows_kernel<kVec, kNarrow, kCapacity>, grid, block, stream, w);
  if (q.head.bag_blocks > 0)
    return launch(lookup_bags_kernel<kVec, kNarrow, kCapacity>, grid, block, stream, w);
  if constexpr (kVec == 4 || kNarrow) {
    if (q.ilp == 8) return launch(lookup_copy8_kernel<kVec, kNarrow, kCapacity>, grid, block, stream, w);
  }
  return launch(lookup_copy_kernel<kVec, kNarrow, kCapacity>, grid, block, stream, w);
}

template <int kVec, bool kNarrow>
int start_form(const LookupRequest& q, Stream stream) {
  if (q.n_records <= kSmallRecords || q.head.records != nullptr)
    return start_sized<kVec, kNarrow, kSmallRecords>(q, stream);
  return start_sized<kVec, kNarrow, kLargeRecords>(q, stream);
}

}  // namespace dpi::kernels::cuda
