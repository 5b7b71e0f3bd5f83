// The first part of the chain kernel: ids of the tile to shared memory, each read once, then the rows they
// name, four columns per lane.
#pragma once

#include "kernels/cuda/chain_launch.hpp"
#include "kernels/cuda/chain_values.hpp"
#include "kernels/cuda/common/rows.hpp"

namespace dpi::kernels::cuda {

/// Rows past the end of the batch get id 0 here and are left out by fetch.
template <class Args>
__device__ void stage_ids(const ChainPlace& p, const ChainHeader& h, const Args& a) {
  const int32_t* inputs = shared_at<int32_t>(p, h.staged_at);
  int32_t* ids = shared_at<int32_t>(p, h.ids_at);
  for (int32_t i = p.thread; i < h.n_staged * kChainRows; i += p.threads) {
    const int32_t row = i / h.n_staged;  // neighbours in memory are neighbours among the lanes
    const int32_t k = i % h.n_staged;
    const ChainInput& in = a.inputs[inputs[k]];
    int32_t id = 0;
    if (row < p.rows) {
      const int64_t at =
          in.offsets != nullptr ? in.offsets[p.first_row + row] : (p.first_row + row) * in.stride;
      id = static_cast<const int32_t*>(in.data)[at];
    }
    ids[k * kChainRows + row] = id;
  }
}

/// Four columns on their way from memory to the value.
struct Fetched {
  float v[4];
  const ChainRecord* record = nullptr;  // null: nothing
  int32_t row;
  int32_t column;
};

__device__ inline EmbedAttrs attrs_of_record(const ChainRecord& f) {
  EmbedAttrs a;
  a.pooling = static_cast<Pooling>(f.pooling);
  a.mask = static_cast<MaskRule>(f.mask);
  a.pad_id = f.pad_id;
  a.max_len = f.max_len;
  a.eps = f.eps;
  a.empty = f.empty;
  return a;
}

template <class Args>
__device__ Pooled<4> fetch_row(const ChainPlace& p, const ChainHeader& h, const Args& a, const Fetched& f) {
  const ChainRecord& r = *f.record;
  const ChainInput& in = a.inputs[r.input];
  if (r.staged >= 0) {
    const int32_t id = shared_at<int32_t>(p, h.ids_at)[r.staged * kChainRows + f.row];
    return columns_at<4>(a.tables[r.table], id, f.column);
  }
  if (r.table >= 0) {
    const Bags bags = {static_cast<const int32_t*>(in.data), in.offsets, in.weights, in.stride, 0};
    return pooled<4>(attrs_of_record(r), bag_of(bags, p.first_row + f.row), a.tables[r.table], f.column);
  }
  const float* x = static_cast<const float*>(in.data) + (p.first_row + f.row) * in.stride;
  Pooled<4> v = {};
  const float* vec = r.vec_at >= 0 ? shared_at<float>(p, r.vec_at) : nullptr;
  for (int k = 0; k < 4; ++k) {
    if (f.column + k < r.width) v.v[k] = vec != nullptr ? x[0] * vec[f.column + k] : x[f.column + k];
  }
  return v;
}

template <class Args>
__device__ void fetch(const ChainPlace& p, const ChainHeader& h, const Args& a, int32_t item, Fetched* f) {
  f->record = nullptr;
  if (item >= h.n_items) return;
  const ChainItem it = shared_at<ChainItem>(p, h.items_at)[item];
  const ChainRecord* r = shared_at<ChainRecord>(p, it.record_at);
  const int32_t vectors = (r->width + 3) / 4;
  const int32_t unit = it.first + p.lane;
  f->row = unit / vectors;
  f->column = unit % vectors * 4;
  if (f->row >= p.rows) return;
  f->record = r;
  const Pooled<4> got = fetch_row(p, h, a, *f);
  DPI_UNROLL
  for (int k = 0; k < 4; ++k) f->v[k] = got.v[k];
}

/// Several items of a warp at a time, so that their rows are on the way together.
template <class Element, class Args>
__device__ void gather(const ChainPlace& p, const ChainHeader& h, const Args& a) {
  constexpr int kTogether = 4;
  for (int32_t item = p.warp; item < h.n_items; item += kTogether * p.warps) {
    Fetched f[kTogether];
    DPI_UNROLL
    for (int k = 0; k < kTogether; ++k) fetch(p, h, a, item + k * p.warps, &f[k]);
    DPI_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      if (f[k].record == nullptr) continue;
      const int32_t left = f[k].record->width - f[k].column;
      chain_put<Element, 4>(p, f[k].record->dst, f[k].row, f[k].column, f[k].v, left < 4 ? left : 4);
    }
  }
}

}  // namespace dpi::kernels::cuda
