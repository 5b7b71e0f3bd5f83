// The first stretch of the small-batch kernel: ids of the tile to shared memory, each read once, then the
// rows they name, four columns per lane.
#pragma once

#include "kernels/cuda/common/loads.hpp"
#include "kernels/cuda/common/rows.hpp"
#include "kernels/cuda/small_batch/launch.hpp"
#include "kernels/cuda/small_batch/values.hpp"

namespace dpi::kernels::cuda::small_batch {

/// Rows past the end of the batch get id 0 here and are left out by fetch.
template <class Args>
__device__ void stage_ids(const Place& p, const Header& h, const Args& a) {
  const int32_t* inputs = shared_at<int32_t>(p, h.staged_at);
  int32_t* ids = shared_at<int32_t>(p, h.ids_at);
  for (int32_t i = p.thread; i < h.n_staged * kTileRows; i += p.threads) {
    const int32_t row = i / h.n_staged;  // neighbours in memory are neighbours among the lanes
    const int32_t k = i % h.n_staged;
    const Input& in = a.inputs[inputs[k]];
    int32_t id = 0;
    if (row < p.rows) {
      const int64_t at =
          in.offsets != nullptr ? in.offsets[p.first_row + row] : (p.first_row + row) * in.stride;
      id = static_cast<const int32_t*>(in.data)[at];
    }
    ids[k * kTileRows + row] = id;
  }
}

/// Four columns on their way from memory to the value, as they lie in memory.
struct Fetched {
  Pack<uint32_t, 4> bits;
  const Record* record = nullptr;  // null: nothing
  int32_t row;
  int32_t column;
  DType dtype;
};

/// Starts the one load that brings four columns of a row; true when one load can (else fetch_any does it).
/// The bits are not converted here, because that would wait for the load: the warp starts the loads of its
/// other items first, and put_fetched converts.
__device__ inline bool fetch_bits(const TableView& t, int64_t id, Fetched* f) {
  if (f->column + 4 > t.dim || !id_in_table(t, id)) return false;
  f->dtype = t.dtype;
  const unsigned char* p = row_bytes_of(t, id) + f->column * dtype_bytes(t.dtype);
  const auto address = reinterpret_cast<uintptr_t>(p);
  if (t.dtype == DType::kF32 && address % 16 == 0) {
    load16(p, RowHint::kPlain, f->bits.v);
    return true;
  }
  if ((t.dtype != DType::kF16 && t.dtype != DType::kBF16) || address % 8 != 0) return false;
  load8(p, RowHint::kPlain, f->bits.v);
  return true;
}

/// The same columns in every other case: pooled bags, other types and addresses, numerics. Not inlined
/// (DPI_COLD): gather calls fetch four times in a row, and four copies of this code would not fit the
/// instruction cache.
static DPI_COLD __device__ Pack<uint32_t, 4> fetch_any(const Record* r, const Input* in,
                                                       const TableView* table, const float* vec, int32_t id,
                                                       int64_t row, int32_t column) {
  Pooled<4> v = {};
  if (r->staged >= 0) {
    v = columns_at<4>(*table, id, column);
  } else if (table != nullptr) {
    EmbedAttrs a;
    a.pooling = static_cast<Pooling>(r->pooling);
    a.mask = static_cast<MaskRule>(r->mask);
    a.pad_id = r->pad_id;
    a.max_len = r->max_len;
    a.eps = r->eps;
    a.empty = r->empty;
    const Bags bags = {static_cast<const int32_t*>(in->data), in->offsets, in->weights, in->stride, 0};
    v = pooled<4>(a, bag_of(bags, row), *table, column);
  } else {
    const float* x = static_cast<const float*>(in->data) + row * in->stride;
    for (int k = 0; k < 4; ++k) {
      if (column + k < r->width) v.v[k] = vec != nullptr ? x[0] * vec[column + k] : x[column + k];
    }
  }
  Pack<uint32_t, 4> bits;
  memcpy(&bits, &v, sizeof(bits));
  return bits;
}

template <class Args>
__device__ void fetch(const Place& p, const Header& h, const Args& a, int32_t item, Fetched* f) {
  f->record = nullptr;
  if (item >= h.n_items) return;
  const Item it = shared_at<Item>(p, h.items_at)[item];
  const Record* r = shared_at<Record>(p, it.record_at);
  const int32_t vectors = (r->width + 3) / 4;
  const int32_t unit = it.first + p.lane;
  f->row = unit / vectors;
  f->column = unit % vectors * 4;
  if (f->row >= p.rows) return;
  f->record = r;
  int32_t id = 0;
  const TableView* table = r->table >= 0 ? &a.tables[r->table] : nullptr;
  if (r->staged >= 0) {
    id = shared_at<int32_t>(p, h.ids_at)[r->staged * kTileRows + f->row];
    if (fetch_bits(*table, id, f)) return;
  }
  const float* vec = r->vec_at >= 0 ? shared_at<float>(p, r->vec_at) : nullptr;
  f->dtype = DType::kF32;
  f->bits = fetch_any(r, &a.inputs[r->input], table, vec, id, p.first_row + f->row, f->column);
}

__device__ inline float bits_to_float(const Fetched& f, int k) {
  if (f.dtype == DType::kF32) return float_of(f.bits.v[k]);
  const uint32_t half = f.bits.v[k / 2] >> (k % 2 * 16) & 0xffffu;
  return f.dtype == DType::kF16 ? widened(Half{static_cast<uint16_t>(half)}) : float_of(half << 16);
}

/// Converts and stores what fetch brought. Not inlined, as fetch_any; `p` and `f` are passed by value,
/// because a reference would force the caller to keep them in (slow, thread-local) memory instead of
/// registers.
template <class Element>
static DPI_COLD __device__ void put_fetched(const Place p, const Fetched f) {
  float v[4];
  DPI_UNROLL
  for (int k = 0; k < 4; ++k) v[k] = bits_to_float(f, k);
  const int32_t left = f.record->width - f.column;
  put<Element, 4>(p, f.record->dst, f.row, f.column, v, left < 4 ? left : 4);
}

/// Several items of a warp at a time, so that their rows are on the way together.
template <class Element, class Args>
__device__ void gather(const Place& p, const Header& h, const Args& a) {
  constexpr int kTogether = 4;
  DPI_ROLLED
  for (int32_t item = p.warp; item < h.n_items; item += kTogether * p.warps) {
    Fetched f[kTogether];
    DPI_UNROLL
    for (int k = 0; k < kTogether; ++k) fetch(p, h, a, item + k * p.warps, &f[k]);
    DPI_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      if (f[k].record != nullptr) put_fetched<Element>(p, f[k]);
    }
  }
}

}  // namespace dpi::kernels::cuda::small_batch
