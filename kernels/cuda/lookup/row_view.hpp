// How the `rows` blocks of the fused lookup read the records of their fields (lookup/sums.hpp). Device code.
#pragma once

#include "kernels/cuda/common/loads.hpp"
#include "kernels/cuda/lookup/work.hpp"

namespace dpi::kernels::cuda {

/// The records of `rows` blocks, from the first behind `copy` on: a block's copy of them in shared memory
/// (RowRecord) or, where they are too many for that, as the launch has them (Record). all: also those of
/// bags.
template <class R>
struct RowView {
  const R* rows;
  View all;
};

template <class R>
__device__ __forceinline__ const R& record_of(const Launch& w, const RowView<R>& view, const Range& range,
                                              int32_t i) {
  return view.rows[range.begin + i - w.copy.count];
}

/// The same of a lane that may have no record: any, so that its fields may be read without a branch.
template <class R>
__device__ __forceinline__ const R& any_record(const Launch& w, const RowView<R>& view, const Range& range,
                                               int32_t i) {
  return view.rows[i < range.count ? range.begin + i - w.copy.count : 0];
}

/// 16 bytes of a record: of one that is no more than a RowRecord, in shared memory.
__device__ __forceinline__ Word4 record_word(const RowRecord& r, int32_t i) {
  return load16_shared(reinterpret_cast<const Word4*>(&r) + i);
}
__device__ __forceinline__ Word4 record_word(const Record& r, int32_t i) {
  Word4 v;
  load16(in_global(reinterpret_cast<const Word4*>(&r)) + i, RowHint::kPlain, v.w);
  return v;
}

/// The first kWords x 16 bytes of a record, read at once and not one after the other between branches: width,
/// type, place in out and, from 2 words on, where rows are; and its cache.
template <int kWords, class R>
__device__ __forceinline__ RowRecord first_fields(const R& from) {
  RowRecord r;
  auto* to = reinterpret_cast<unsigned char*>(&r);
  DPI_UNROLL
  for (int32_t i = 0; i < kWords; ++i) {
    const Word4 word = record_word(from, i);
    memcpy(to + i * sizeof word, &word, sizeof word);
  }
  r.cache = from.cache;
  return r;
}

}  // namespace dpi::kernels::cuda
