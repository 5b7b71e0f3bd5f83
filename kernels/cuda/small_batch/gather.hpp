// The first stretch of the small-batch kernel: ids of the tile to shared memory, each read once (and numbers,
// where inputs lie across the bus), then the rows they name, four columns per lane.
#pragma once

#include "kernels/cuda/common/loads.hpp"
#include "kernels/cuda/common/rows.hpp"
#include "kernels/cuda/small_batch/launch.hpp"
#include "kernels/cuda/small_batch/values.hpp"

namespace dpi::kernels::cuda::small_batch {

/// A word on its way from an input to the rank that gathers with it.
struct StagedWord {
  uint32_t bits = 0;
  int32_t at = 0;     // in the rank's shared memory
  int32_t rank = -1;  // -1: nothing
};

/// Word i of the list: numbers of all rows, then ids, so that neighbours in memory are neighbours among the
/// lanes. Rows past the end of the batch are not read.
template <class Args>
__device__ StagedWord staged_word(const ThreadInfo& p, const Header& h, const Args& a, int32_t i) {
  StagedWord w;
  const int32_t numbers = h.n_number_columns * kTileRows;
  const bool is_number = i < numbers;
  const int32_t n = is_number ? h.n_number_columns : h.n_id_columns;
  const int32_t k = is_number ? i : i - numbers;
  if (k >= n * kTileRows || k / n >= p.rows) return w;
  const int32_t row = k / n;
  const int32_t first = is_number ? 0 : h.n_number_columns;
  const StagedColumn c = shared_at<StagedColumn>(p, h.columns_at)[first + k % n];
  const Input& in = a.inputs[c.input];
  const int64_t at = in.offsets != nullptr ? in.offsets[p.first_row + row] : (p.first_row + row) * in.stride;
  w.bits = static_cast<const uint32_t*>(in.data)[at + c.column];
  w.at = c.at + row * static_cast<int32_t>(sizeof(uint32_t));
  w.rank = c.rank;
  return w;
}

/// Several words of a thread at a time, so that they are on the way together. Shared out among the ranks,
/// each word of the tile crosses the bus once, with its neighbours: read by the rank that needs them, a row's
/// words would be a request of the bus for each rank.
template <class Args>
__device__ void stage_words(const ThreadInfo& p, const Header& h, const Args& a) {
  constexpr int kTogether = 4;
  const int32_t first = h.shared_out != 0 ? p.rank * p.threads + p.thread : p.thread;
  const int32_t step = h.shared_out != 0 ? p.ranks * p.threads : p.threads;
  const int32_t words = (h.n_number_columns + h.n_id_columns) * kTileRows;
  DPI_ROLLED
  for (int32_t begin = 0; begin < words; begin += kTogether * step) {
    StagedWord w[kTogether];
    DPI_UNROLL
    for (int k = 0; k < kTogether; ++k) w[k] = staged_word(p, h, a, begin + first + k * step);
    // With the words on the way: every rank has its program, from here on others may write into it.
    if (begin == 0 && h.shared_out != 0) cluster_sync(p);
    DPI_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      if (w[k].rank < 0) continue;
      auto* to = shared_at<uint32_t>(p, w[k].at);
      *(h.shared_out != 0 ? at_rank(p, to, w[k].rank) : to) = w[k].bits;
    }
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

/// n of four words, `apart` words from each other; the others are 0.
__device__ inline void fetch_words(const uint32_t* from, int32_t apart, int32_t n, Fetched* f) {
  DPI_UNROLL
  for (int k = 0; k < 4; ++k) f->bits.v[k] = k < n ? from[k * apart] : 0;
}

/// Starts the loads that bring four columns of a row, or the only one; true when that is all there is to do
/// (else fetch_any does it). The bits are not converted here, because that would wait for the loads: the warp
/// starts those of its other items first, and put_fetched converts.
__device__ inline bool fetch_bits(const TableView& t, int64_t id, Fetched* f) {
  if (!id_in_table(t, id)) return false;
  const int32_t n = t.dim - f->column;
  f->dtype = t.dtype;
  const bool halves = t.dtype == DType::kF16 || t.dtype == DType::kBF16;
  if (!halves && t.dtype != DType::kF32) return false;
  const unsigned char* p = row_bytes_of(t, id) + f->column * (halves ? 2 : 4);
  const auto address = reinterpret_cast<uintptr_t>(p);
  if (halves && n >= 4 && address % 8 == 0) {
    load8(p, RowHint::kPlain, f->bits.v);
  } else if (halves && n == 1 && address % 2 == 0) {
    f->bits = {{*reinterpret_cast<const uint16_t*>(p), 0, 0, 0}};
  } else if (!halves && n >= 4 && address % 16 == 0) {
    load16(p, RowHint::kPlain, f->bits.v);
  } else if (!halves && address % 4 == 0) {
    fetch_words(reinterpret_cast<const uint32_t*>(p), 1, n, f);
  } else {
    return false;
  }
  return true;
}

/// The same columns in every other case: pooled bags, other types and addresses, numbers times a vector. Not
/// inlined (DPI_COLD): gather calls fetch three times in a row, and three copies of this code would not fit
/// the instruction cache.
static DPI_COLD __device__ Pack<uint32_t, 4> fetch_any(const Record* r, const Input* in,
                                                       const TableView* table, const float* vec,
                                                       const uint32_t* words, int64_t row, int32_t column) {
  Pooled<4> v = {};
  if (table != nullptr && words != nullptr) {
    v = columns_at<4>(*table, static_cast<int32_t>(words[0]), column);
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
    const auto number = [&](int32_t c) { return words != nullptr ? float_of(words[c * kTileRows]) : x[c]; };
    for (int k = 0; k < 4; ++k) {
      if (column + k < r->width) v.v[k] = vec != nullptr ? number(0) * vec[column + k] : number(column + k);
    }
  }
  Pack<uint32_t, 4> bits;
  memcpy(&bits, &v, sizeof(bits));
  return bits;
}

template <class Args>
__device__ void fetch(const ThreadInfo& p, const Header& h, const Args& a, int32_t item, Fetched* f) {
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
  const TableView* table = r->table >= 0 ? &a.tables[r->table] : nullptr;
  const uint32_t* words = nullptr;
  if (r->staged >= 0) words = shared_at<uint32_t>(p, h.words_at) + r->staged * kTileRows + f->row;
  if (table != nullptr && words != nullptr && fetch_bits(*table, static_cast<int32_t>(*words), f)) return;
  const Input* in = &a.inputs[r->input];
  const int64_t row = p.first_row + f->row;
  f->dtype = DType::kF32;
  if (table == nullptr && r->vec_at < 0) {  // numbers as they are
    const int32_t apart = words != nullptr ? kTileRows : 1;
    const uint32_t* from =
        words != nullptr ? words : static_cast<const uint32_t*>(in->data) + row * in->stride;
    fetch_words(from + f->column * apart, apart, r->width - f->column, f);
    return;
  }
  const float* vec = r->vec_at >= 0 ? shared_at<float>(p, r->vec_at) : nullptr;
  f->bits = fetch_any(r, in, table, vec, words, row, f->column);
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
static DPI_COLD __device__ void put_fetched(const ThreadInfo p, const Fetched f) {
  float v[4];
  DPI_UNROLL
  for (int k = 0; k < 4; ++k) v[k] = bits_to_float(f, k);
  const int32_t left = f.record->width - f.column;
  put<Element, 4>(p, f.record->dst, f.row, f.column, v, left < 4 ? left : 4);
}

/// Several items of a warp at a time, so that their rows are on the way together.
template <class Element, class Args>
__device__ void gather(const ThreadInfo& p, const Header& h, const Args& a) {
  constexpr int kTogether = 3;
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
