// The `rows` blocks of the fused lookup: a warp takes one row and all its fields. Lanes lie across a vector,
// so that a warp reads several fields' rows at once and keeps kBatch of them in flight per lane; the same
// pass writes the columns, adds the vectors up for FM, and gathers the scalars (linear weights), which lie in
// the padding behind the rows, so that one 64-byte read brings both. Lanes meet by shuffles in a fixed
// order. Device code.
#pragma once

#include "kernels/cuda/lookup/bags.hpp"
#include "kernels/cuda/lookup/row_view.hpp"

namespace dpi::kernels::cuda {

/// Values that a lane gathers of one row.
template <int kVec>
struct RowSums {
  Values<kVec> s = {};  // its columns, over its group's fields
  float pairs = 0;      // of FM: each vector times the sum of those before it in this lane
  float channel = 0;    // of its channel, over its share of the scalar fields
  bool rare = false;    // something was left out, to be read element by element
};

/// A lane's place: its columns in a vector, and its channel (a warp has 2^log2 channels at a time, the other
/// lanes take other fields).
struct RowPlace {
  int32_t row;
  int32_t lane;
  Lanes vector;
  int32_t turn;    // first column of all lanes: 0, and more in vectors wider than a warp
  int32_t column;  // first of this lane's
  Lanes channels;
  int32_t channel;
  float numeric;  // of the field that has the lane's number: read before the rows, used after them
};

struct RowTotals {
  float channel = 0;
  float fm = 0;
};

/// Is `own` true in any lane of the warp? All lanes call it together.
__device__ __forceinline__ bool warp_any(bool own) {
#ifdef __CUDACC__
  return __any_sync(kAllLanes, own ? 1 : 0) != 0;
#else
  int any = own ? 1 : 0;
  for (int step = kWarp / 2; step > 0; step /= 2) any |= __shfl_xor_sync(kAllLanes, any, step);
  return any != 0;
#endif
}

template <int kVec>
constexpr int kBatch = kVec == 4 ? 4 : 2;
constexpr int kScalarBatch = 2;

template <int kVec>
__device__ __forceinline__ void add_vector(const RowRecord& r, const Values<kVec>& x, RowSums<kVec>* sums) {
  if (r.fm == 0) return;
  DPI_UNROLL
  for (int k = 0; k < kVec; ++k) {
    sums->pairs = fmaf(x.v[k], sums->s.v[k], sums->pairs);
    sums->s.v[k] += x.v[k];
  }
}

__device__ __forceinline__ uint32_t id_at(const int32_t* ids, int32_t row, int32_t stride) {
  return static_cast<uint32_t>(in_global(ids)[int64_t{row} * stride]);
}

// ---- one-hot vectors

constexpr uint32_t kNoRow = ~0u;

/// kBatch vectors of a lane, from their ids to their rows.
template <int kVec, class Head>
struct VectorBatch {
  RowOf<Head> row[kBatch<kVec>];  // once rows were looked for: kNoRow where raw was not read
  Raw<kVec> raw[kBatch<kVec>];
};

template <int kVec, class Head, class R>
__device__ __forceinline__ void load_vector_ids(const Head& w, const RowView<R>& view, const RowPlace& at,
                                                int32_t first, VectorBatch<kVec, Head>* b) {
  DPI_UNROLL
  for (int k = 0; k < kBatch<kVec>; ++k) {
    const int32_t i = first + k * at.vector.groups + at.vector.group;
    const R& r = any_record(w, view, w.vectors, i);
    const int32_t* ids = r.ids;
    const int32_t stride = r.stride;
    set_id(i < w.vectors.count ? id_at(ids, at.row, stride) : kNoRow, &b->row[k]);
  }
}

/// Where vector k of a batch lies; row null: it is not read.
template <int kVec, class Head, class R>
__device__ __forceinline__ RowPart find_vector(const Head& w, const RowView<R>& view, const RowPlace& at,
                                               int32_t first, int k, VectorBatch<kVec, Head>* b, bool* rare) {
  const int32_t i = first + k * at.vector.groups + at.vector.group;
  const RowRecord r = first_fields<2>(any_record(w, view, w.vectors, i));
  const bool wanted = i < w.vectors.count && at.column < r.width;
  const bool found = wanted && find_row(w, r, id_of(b->row[k]), &b->row[k]);
  if (!found) set_id(kNoRow, &b->row[k]);
  *rare = *rare || (wanted && !found);
  return {found ? row_bytes_of(r, b->row[k]) : nullptr, at.column, r.width - at.column, r.dtype()};
}

/// Two at a time are looked for and then read: more addresses than that do not fit the registers.
template <int kVec, class Head, class R>
__device__ __forceinline__ void load_vectors(const Head& w, const RowView<R>& view, const RowPlace& at,
                                             int32_t first, VectorBatch<kVec, Head>* b, bool* rare) {
  DPI_UNROLL
  for (int pair = 0; pair < kBatch<kVec>; pair += 2) {
    RowPart part[2];
    DPI_UNROLL
    for (int k = 0; k < 2; ++k) part[k] = find_vector(w, view, at, first, pair + k, b, rare);
    DPI_UNROLL
    for (int k = 0; k < 2; ++k) {
      if (part[k].row != nullptr) load_part<kVec>(part[k], hint_of(w), &b->raw[pair + k]);
    }
  }
}

template <int kVec, bool kNarrow>
__device__ __forceinline__ void use_vector(const Launch& w, const RowRecord& r, const RowPlace& at,
                                           Values<kVec> x, RowSums<kVec>* sums) {
  clear_from<kVec>(r.width - at.column, &x);
  add_vector(r, x, sums);
  if (r.out_col >= 0) store_vector<kVec, kNarrow>(w, out_column(r, at.column), at.row, x);
}

template <int kVec, bool kNarrow, class Head, class R>
__device__ __forceinline__ void use_vectors(const Head& w, const RowView<R>& view, const RowPlace& at,
                                            int32_t first, const VectorBatch<kVec, Head>& b,
                                            RowSums<kVec>* sums) {
  DPI_UNROLL
  for (int k = 0; k < kBatch<kVec>; ++k) {
    if (id_of(b.row[k]) == kNoRow) continue;
    const R& record = record_of(w, view, w.vectors, first + k * at.vector.groups + at.vector.group);
    const RowRecord r = first_fields<1>(record);
    const float scale = r.dtype() == DType::kI8 ? scale_of(record, b.row[k]) : 1.0f;
    use_vector<kVec, kNarrow>(w, r, at, decode_vector<kVec>(r.dtype(), b.raw[k], scale), sums);
  }
}

// ---- one-hot scalars

struct ScalarBatch {
#ifdef __CUDACC__
  uint32_t id[kScalarBatch];  // read only where it was set
#else
  uint32_t id[kScalarBatch] = {};  // the host compiler cannot see that and would warn
#endif
  float v[kScalarBatch] = {};
};

/// Has this lane a field i, and is its channel among the field's?
__device__ __forceinline__ bool has_channel(const Launch& w, const RowRecord& r, const RowPlace& at,
                                            int32_t i) {
  const int32_t first = r.first_channel;
  const int32_t end = first + r.width;
  return i < w.scalars.count && at.channel >= first && at.channel < end;
}

template <class R>
__device__ __forceinline__ void load_scalar_ids(const Launch& w, const RowView<R>& view, const RowPlace& at,
                                                int32_t first, ScalarBatch* b) {
  DPI_UNROLL
  for (int k = 0; k < kScalarBatch; ++k) {
    const int32_t i = first + k * at.channels.groups + at.channels.group;
    const R& r = any_record(w, view, w.scalars, i);
    const int32_t* ids = r.ids;
    const int32_t stride = r.stride;
    b->id[k] = has_channel(w, r, at, i) ? id_at(ids, at.row, stride) : kNoRow;
  }
}

template <class Head, class R>
__device__ __forceinline__ void load_scalars(const Head& w, const RowView<R>& view, const RowPlace& at,
                                             int32_t first, ScalarBatch* b, bool* rare) {
  DPI_UNROLL
  for (int k = 0; k < kScalarBatch; ++k) {
    const int32_t i = first + k * at.channels.groups + at.channels.group;
    const R& record = any_record(w, view, w.scalars, i);
    const RowRecord r = first_fields<2>(record);
    const int32_t column = at.channel - record.first_channel;
    if (!has_channel(w, record, at, i)) continue;
    if (b->id[k] < r.wide_rows) {
      b->v[k] = float_of(load4(row_bytes_of(r, row_of(w, r, b->id[k])) + column * 4, hint_of(w)));
    } else {
      *rare = true;
    }
  }
}

// ---- both, with their reads in flight together

/// n_scalars: w.scalars.count in the first turn over the fields, 0 in later ones.
template <int kVec, bool kNarrow, class Head, class R>
__device__ __forceinline__ void add_one_hot(const Head& w, const RowView<R>& view, const RowPlace& at,
                                            int32_t n_scalars, RowSums<kVec>* sums) {
  const int32_t vectors = kBatch<kVec> * at.vector.groups;
  const int32_t scalars = kScalarBatch * at.channels.groups;
  for (int32_t v = 0, s = 0; v < w.vectors.count || s < n_scalars; v += vectors, s += scalars) {
    VectorBatch<kVec, Head> rows;
    ScalarBatch values;
    load_vector_ids<kVec>(w, view, at, v, &rows);
    if (s < n_scalars) load_scalar_ids(w, view, at, s, &values);
    load_vectors<kVec>(w, view, at, v, &rows, &sums->rare);
    if (s < n_scalars) load_scalars(w, view, at, s, &values, &sums->rare);
    use_vectors<kVec, kNarrow>(w, view, at, v, rows, sums);
    if (s < n_scalars) sums->channel += values.v[0] + values.v[1];
  }
}

/// The same one field after another and element by element, for rows that are not aligned and for ids outside
/// their tables, which are counted here.
template <int kVec, bool kNarrow, class Head, class R>
__device__ inline void add_one_hot_slowly(const Head& w, const RowView<R>& view, const RowPlace& at,
                                          int32_t n_scalars, RowSums<kVec>* sums) {
  DPI_ROLLED
  for (int32_t i = at.vector.group; i < w.vectors.count; i += at.vector.groups) {
    const R& r = record_of(w, view, w.vectors, i);
    if (at.column >= r.width) continue;
    const uint32_t id = id_at(r.ids, at.row, r.stride);
    use_vector<kVec, kNarrow>(w, r, at, read_elements<kVec>(w, r, id, at.column, at.row), sums);
  }
  DPI_ROLLED
  for (int32_t i = 0; i < n_scalars; i += at.channels.groups) {
    const R& r = any_record(w, view, w.scalars, i + at.channels.group);
    if (!has_channel(w, r, at, i + at.channels.group)) continue;
    const uint32_t id = id_at(r.ids, at.row, r.stride);
    sums->channel += read_elements<1>(w, r, id, at.channel - r.first_channel, at.row).v[0];
  }
}

// ---- numerics: a lane reads one value, all lanes get it

template <class R>
__device__ __forceinline__ float numeric_of_lane(const Launch& w, const RowView<R>& view, int32_t row,
                                                 int32_t i) {
  if (i >= w.numerics.count) return 0;
  const R& r = record_of(w, view, w.numerics, i);
  return in_global(reinterpret_cast<const float*>(r.base))[int64_t{row} * r.stride];
}

template <int kVec, bool kNarrow, class R>
__device__ inline void add_numeric_vectors(const Launch& w, const RowView<R>& view, const RowPlace& at,
                                           RowSums<kVec>* sums) {
  for (int32_t first = 0; first < w.numerics.count; first += kWarp) {
    const float mine = first == 0 ? at.numeric : numeric_of_lane(w, view, at.row, at.lane + first);
    const int32_t n = w.numerics.count - first < kWarp ? w.numerics.count - first : kWarp;
    for (int32_t j = 0; j < n; j += at.vector.groups) {
      const int32_t own = j + at.vector.group;
      const float x = __shfl_sync(kAllLanes, mine, own % kWarp);
      if (own >= n) continue;
      const R& r = record_of(w, view, w.numerics, first + own);
      if (at.column >= r.width || (r.fm == 0 && r.out_col < 0)) continue;
      const Values<kVec> y = numeric_vector<kVec>(r, &x, at.column);
      add_vector(r, y, sums);
      if (r.out_col >= 0) store_vector<kVec, kNarrow>(w, out_column(r, at.column), at.row, y);
    }
  }
}

/// x lin[c] of this lane's share of the numerics.
template <class R>
__device__ inline float numeric_channel(const Launch& w, const RowView<R>& view, const RowPlace& at) {
  float sum = 0;
  for (int32_t first = 0; first < w.numerics.count; first += kWarp) {
    const float mine = first == 0 ? at.numeric : numeric_of_lane(w, view, at.row, at.lane + first);
    const int32_t n = w.numerics.count - first < kWarp ? w.numerics.count - first : kWarp;
    for (int32_t j = 0; j < n; j += at.channels.groups) {
      const int32_t own = j + at.channels.group;
      const float x = __shfl_sync(kAllLanes, mine, own % kWarp);
      if (own >= n) continue;
      const R& r = record_of(w, view, w.numerics, first + own);
      if (r.weights == nullptr || at.channel >= w.n_channels) continue;
      sum = fmaf(x, in_global(r.weights)[at.channel], sum);
    }
  }
  return sum;
}

// ---- bags

template <int kVec, bool kNarrow, class Head, class R>
__device__ inline void add_vector_bags(const Head& w, const RowView<R>& view, const RowPlace& at,
                                       RowSums<kVec>* sums) {
  for (int32_t i = 0; i < w.vector_bags.count; i += at.vector.groups) {
    const int32_t own = i + at.vector.group;
    const bool has = own < w.vector_bags.count;
    const BagTask task{w.vector_bags.begin + (has ? own : 0), has ? int64_t{at.row} : -1};
    Values<kVec> y = pool_groups < kVec,
                 kVec == 4 ? 2 : 1 > (w, view.all.records, task, at.column, at.vector);
    if (!has) continue;
    const R& r = record_of(w, view, w.vector_bags, own);
    if (at.column >= r.width) continue;
    clear_from<kVec>(r.width - at.column, &y);
    add_vector(r, y, sums);
    if (r.out_col >= 0) store_vector<kVec, kNarrow>(w, out_column(r, at.column), at.row, y);
  }
}

/// Column `k` of y, 0 outside it.
template <int kVec>
__device__ __forceinline__ float pick(const Values<kVec>& y, int32_t k) {
  float x = 0;
  DPI_UNROLL
  for (int i = 0; i < kVec; ++i) x = i == k ? y.v[i] : x;
  return x;
}

/// A lane pools a field; the warp then adds each channel up.
template <int kVec, class Head>
__device__ inline float scalar_bags_channel(const Head& w, const View& view, const RowPlace& at) {
  const Lanes lanes = lanes_of(at.lane, 0);
  const int32_t first_channel = at.channel - at.channels.sub;
  const int32_t last = first_channel + (1 << at.channels.log2);
  float sum = 0;
  for (int32_t i = 0; i < w.scalar_bags.count; i += kWarp) {
    const bool has = i + at.lane < w.scalar_bags.count;
    const BagTask task{w.scalar_bags.begin + (has ? i + at.lane : 0), has ? int64_t{at.row} : -1};
    const Record& r = view.records[task.record];
    for (int32_t column = 0; column < w.scalar_width; column += kVec) {
      const Values<kVec> y = pool_groups < kVec, kVec == 4 ? 2 : 1 > (w, view.records, task, column, lanes);
      for (int32_t c = first_channel; c < last && c < w.n_channels; ++c) {
        const int32_t k = has ? c - r.first_channel : -1;
        const float total = warp_sum(k >= 0 && k < r.width ? pick(y, k - column) : 0.0f);
        if (c == at.channel && at.channels.group == 0) sum += total;
      }
    }
  }
  return sum;
}

// ---- the row

/// All pairs, in every lane: those within a lane, and where two groups of lanes meet, the sum of one times
/// that of the other. Over the first groups each lane keeps half of its columns and gives the other half
/// away, so that adding the groups up takes 2 + 1 shuffles of 4 columns instead of 8.
template <int kVec>
__device__ inline float fm_of(const RowSums<kVec>& sums, const Lanes& lanes, int32_t lane) {
  Values<kVec> s = sums.s;
  float pairs = sums.pairs;
  int32_t step = kWarp / 2;
  const int32_t last = 1 << lanes.log2;  // lanes nearer than this hold other columns
  DPI_UNROLL
  for (int half = kVec / 2; half > 0; half /= 2) {
    if (step < last) continue;
    const bool upper = (lane & step) != 0;
    DPI_UNROLL
    for (int k = 0; k < half; ++k) {
      const float away = upper ? s.v[k] : s.v[k + half];
      const float keep = upper ? s.v[k + half] : s.v[k];
      const float other = __shfl_xor_sync(kAllLanes, away, step);
      pairs = fmaf(keep, other, pairs);
      s.v[k] = keep + other;
    }
    step /= 2;
  }
  for (float share = 0.5f; step >= last; step /= 2, share *= 0.5f) {  // of the lanes that compute the same
    const float other = __shfl_xor_sync(kAllLanes, s.v[0], step);
    pairs = fmaf(share * s.v[0], other, pairs);
    s.v[0] += other;
  }
  return warp_sum(pairs);
}

/// Adds up and writes the 2^at.channels.log2 channels around at.channel; `channel`: this lane's share so far.
template <int kVec, bool kGeneral, class Head, class R>
__device__ inline void write_channel(const Head& w, const RowView<R>& view, const RowPlace& at, float channel,
                                     float fm) {
  channel += numeric_channel(w, view, at);
  if constexpr (kGeneral) channel += scalar_bags_channel<kVec>(w, view.all, at);
  for (int32_t step = 1 << at.channels.log2; step < kWarp; step *= 2)
    channel += __shfl_xor_sync(kAllLanes, channel, step);
  if (at.channels.group != 0 || at.channel >= w.n_channels) return;
  if (at.channel == w.fm_channel) channel += fm;
  if (w.bias != nullptr) channel += w.bias[at.channel];
  w.chan[int64_t{at.row} * w.chan_stride + at.channel] = channel;
}

/// One turn over the fields: this lane's columns from `first` + its own on. True in all lanes when something
/// has to be read slowly; the row is then begun again.
template <int kVec, bool kNarrow, bool kGeneral, class Head, class R>
__device__ __forceinline__ bool sum_columns(const Head& w, const RowView<R>& view, const RowPlace& at,
                                            bool slowly, RowTotals* totals) {
  RowSums<kVec> sums;
  const int32_t n_scalars = at.turn == 0 ? w.scalars.count : 0;
  if (slowly) {
    add_one_hot_slowly<kVec, kNarrow>(w, view, at, n_scalars, &sums);
  } else {
    add_one_hot<kVec, kNarrow>(w, view, at, n_scalars, &sums);
    if (warp_any(sums.rare)) return true;
  }
  add_numeric_vectors<kVec, kNarrow>(w, view, at, &sums);
  if constexpr (kGeneral) add_vector_bags<kVec, kNarrow>(w, view, at, &sums);
  totals->channel += sums.channel;
  if (w.fm_channel >= 0) totals->fm += fm_of(sums, at.vector, at.lane);
  return false;
}

/// One row. kGeneral: there are bags, vectors wider than a warp reads at once, or more than 32 channels.
/// slowly: read element by element. True: something needs that, so the row has to be begun again with it.
template <int kVec, bool kNarrow, bool kGeneral, class Head, class R>
__device__ __forceinline__ bool sum_row(const Head& w, const RowView<R>& view, int32_t row, bool slowly) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  RowPlace at;
  at.row = row;
  at.lane = lane;
  at.turn = 0;
  at.vector = lanes_of(lane, w.lanes_log2);
  at.column = at.vector.sub * kVec;
  at.channels = lanes_of(lane, lanes_for(1, w.n_channels));
  at.channel = at.channels.sub;
  at.numeric = numeric_of_lane(w, view, row, lane);
  RowTotals totals;
  const int32_t turn = kVec << w.lanes_log2;
  do {
    if (sum_columns<kVec, kNarrow, kGeneral>(w, view, at, slowly, &totals)) return true;
    at.turn += turn;
    at.column += turn;
  } while (kGeneral && at.turn < w.row_width);
  for (int32_t first = 0; first < w.n_channels; first += kWarp) {
    if (kGeneral && first > 0) {
      RowSums<kVec> more;  // scalars only: no lane has a column
      at.channel = first + at.channels.sub;
      at.column = w.row_width;
      add_one_hot_slowly<kVec, kNarrow>(w, view, at, w.scalars.count, &more);
      totals.channel = more.channel;
    }
    write_channel<kVec, kGeneral>(w, view, at, totals.channel, totals.fm);
    if (!kGeneral) break;
  }
  return false;
}

/// warp, warps: of the `rows` blocks.
template <int kVec, bool kNarrow, bool kGeneral, class Head, class R>
__device__ inline void sum_rows(const Head& w, const RowView<R>& view, int32_t warp, int32_t warps) {
  bool slowly = false;
  const auto rows = static_cast<uint32_t>(w.rows);  // LookupBuild::fits: an int32
  for (auto row = static_cast<uint32_t>(warp); row < rows;) {
    slowly = sum_row<kVec, kNarrow, kGeneral>(w, view, static_cast<int32_t>(row), slowly);
    if (!slowly) row += static_cast<uint32_t>(warps);
  }
}

/// Copies the records of `rows` blocks into a block's shared memory, `to`. All threads of the block call it
/// together, and wait for one another.
__device__ __forceinline__ const RowRecord* staged_records(const Launch& w, const Record* records,
                                                           Word4* to) {
  constexpr uint32_t kWords = sizeof(RowRecord) / sizeof(Word4);
  constexpr uint32_t kFlight = 8;  // of a thread's words: the first block of a multiprocessor waits for L2
  const int32_t n = w.vectors.count + w.numerics.count + w.vector_bags.count + w.scalars.count;
  const uint32_t words = n * kWords;
  for (uint32_t first = threadIdx.x; first < words; first += kFlight * blockDim.x) {
    Word4 v[kFlight];
    DPI_UNROLL
    for (uint32_t k = 0; k < kFlight; ++k) {
      const uint32_t own = first + k * blockDim.x;
      const uint32_t i = own < words ? own : words - 1;
      const Record& from = records[w.copy.count + i / kWords];
      v[k] = load16_argument(reinterpret_cast<const Word4*>(&from) + i % kWords);
    }
    DPI_UNROLL
    for (uint32_t k = 0; k < kFlight; ++k) {
      if (first + k * blockDim.x < words) store16(to + first + k * blockDim.x, v[k]);
    }
  }
  __syncthreads();
  return reinterpret_cast<const RowRecord*>(to);
}

}  // namespace dpi::kernels::cuda
