// Bags of the fused lookup. A bag is pooled by a group of 2^lanes_log2 lanes side by side over its columns, a
// few rows in flight, in the order of its ids. A bag of more than kLookupLongBag positions is shared by all
// groups of its warp: group g takes positions g, g + groups ..., and their sums are added in a fixed order.
// So a row's bits depend on its own bag only. Device code.
#pragma once

#include "kernels/cuda/lookup/copy.hpp"

namespace dpi::kernels::cuda {

using estimates::kLookupLongBag;

/// A lane's place in its warp, for vectors of 2^log2 lanes.
struct Lanes {
  int32_t log2;
  int32_t sub;     // in its group
  int32_t group;   // 0 .. groups - 1
  int32_t groups;  // of the warp
};

__device__ __forceinline__ Lanes lanes_of(int32_t lane, int32_t log2) {
  return {log2, lane & ((1 << log2) - 1), lane >> log2, kWarp >> log2};
}

/// One bag, checked: begin .. begin + n of the record's ids.
struct Positions {
  int64_t begin = 0;
  int32_t n = 0;      // ids
  int32_t total = 0;  // with the padding that counts (MaskRule::kNone)
};

/// `row` < 0: no bag.
__device__ inline Positions positions_of(const Launch& w, const Record& r, int64_t row, bool reports) {
  Positions p;
  if (row < 0) return p;
  const int32_t* offsets = in_global(r.offsets);
  const int32_t begin = offsets[row];
  const int32_t end = offsets[row + 1];
  if (begin >= 0 && begin <= end && end <= offsets[w.rows]) {
    p.begin = begin;
    p.n = end - begin;
  } else if (reports) {
    report_fault(w, r, row);
  }
  if (r.pools(Pooling::kSingle) && p.n > 1) p.n = 1;
  const bool laid_out = r.masks(MaskRule::kNone) && !r.pools(Pooling::kSingle);
  p.total = laid_out && r.max_len > p.n ? r.max_len : p.n;
  return p;
}

/// The sum of a bag's positions, or their maximum.
template <int kVec>
struct Pool {
  Values<kVec> x = {};
  float divisor = 0;
  int32_t counted = 0;
};

/// Position i: its id and weight, and what it does.
struct Position {
  uint32_t id;
  float weight;
  bool joins;   // in the sum or maximum
  bool counts;  // in the divisor
};

__device__ __forceinline__ Position position_at(const Record& r, const Positions& p, int32_t i) {
  if (i >= p.total) return {~0u, 1, false, false};
  const bool own = i < p.n;
  const int32_t id = own ? in_global(r.ids)[p.begin + i] : r.pad_id;
  const bool pooled = !r.pools(Pooling::kSingle);
  Position q = {static_cast<uint32_t>(id), 1, true, true};
  if (own && r.weights != nullptr && pooled) q.weight = in_global(r.weights)[p.begin + i];
  if (r.masks(MaskRule::kId)) q.joins = q.counts = id != r.pad_id || !pooled;
  if (r.masks(MaskRule::kNonzero) && pooled) {
    q.counts = q.id < r.rows && row_counts(table_of(r), q.id);
    q.joins = q.counts || !r.pools(Pooling::kMax);
  }
  return q;
}

template <int kVec>
__device__ __forceinline__ void add_position(const Record& r, const Position& q, const Values<kVec>& x,
                                             Pool<kVec>* pool) {
  DPI_UNROLL
  for (int k = 0; k < kVec; ++k) {
    float& y = pool->x.v[k];
    if (!r.pools(Pooling::kMax)) {
      y = fmaf(q.weight, x.v[k], y);
    } else if (pool->counted == 0 || !(x.v[k] <= y)) {
      y = x.v[k];
    }
  }
  if (!q.counts) return;
  pool->divisor += q.weight;
  ++pool->counted;
}

/// Positions first, first + step ... of a bag, columns column .. column + kVec - 1, kFlight rows in flight.
template <int kVec, int kFlight, class Head>
__device__ inline Pool<kVec> pool_positions(const Head& w, const Record& r, const Positions& p, int32_t first,
                                            int32_t step, int32_t column) {
  Pool<kVec> pool;
  bool rare = false;  // positions whose row is read element by element, after the others
  for (int32_t i = first; i < p.total; i += kFlight * step) {
    Position q[kFlight];
    RowOf<Head> row[kFlight];
    Raw<kVec> raw[kFlight];
    DPI_UNROLL
    for (int k = 0; k < kFlight; ++k) {
      q[k] = position_at(r, p, i + k * step);
      set_id(q[k].id, &row[k]);
      if (q[k].joins && find_row(w, r, q[k].id, &row[k]))
        load_vector<kVec>(r, row[k], column, hint_of(w), &raw[k]);
    }
    DPI_UNROLL
    for (int k = 0; k < kFlight; ++k) {
      if (!q[k].joins) continue;
      if (is_found(r, row[k])) {
        add_position(r, q[k], decode_vector<kVec>(r.dtype(), raw[k], scale_of(r, row[k])), &pool);
      } else {
        rare = true;
      }
    }
  }
  DPI_ROLLED
  for (int32_t i = first; rare && i < p.total; i += step) {
    const Position q = position_at(r, p, i);
    if (q.joins && q.id >= r.wide_rows)
      add_position(r, q, read_elements<kVec>(w, r, q.id, column, -1), &pool);
  }
  return pool;
}

/// Adds the sums of all groups of a warp, in the same order in each.
template <int kVec>
__device__ inline void join_groups(const Record& r, const Lanes& lanes, Pool<kVec>* pool) {
  for (int32_t step = 1 << lanes.log2; step < kWarp; step *= 2) {
    const int32_t counted = __shfl_xor_sync(kAllLanes, pool->counted, step);
    const float divisor = __shfl_xor_sync(kAllLanes, pool->divisor, step);
    DPI_UNROLL
    for (int k = 0; k < kVec; ++k) {
      const float other = __shfl_xor_sync(kAllLanes, pool->x.v[k], step);
      float& mine = pool->x.v[k];
      if (!r.pools(Pooling::kMax)) {
        mine += other;
      } else if (counted > 0) {
        mine = pool->counted == 0 || !(other <= mine) ? other : mine;
      }
    }
    pool->divisor += divisor;
    pool->counted += counted;
  }
}

template <int kVec>
__device__ inline Values<kVec> finished(const Record& r, const Pool<kVec>& pool) {
  Values<kVec> y = pool.x;
  if (r.pools(Pooling::kMean)) {
    DPI_UNROLL
    for (int k = 0; k < kVec; ++k) y.v[k] = pool.counted == 0 ? 0.0f : pool.x.v[k] / (pool.divisor + r.eps);
  } else if (r.pools(Pooling::kMax) && pool.counted == 0) {
    DPI_UNROLL
    for (int k = 0; k < kVec; ++k) y.v[k] = r.empty;
  }
  return y;
}

/// A task for a lane's group: a record's bag of one row, or nothing (row < 0; the record is valid all the
/// same).
struct BagTask {
  int32_t record;
  int64_t row;
};

/// Counts ids outside the table, one lane per group, each position once.
__device__ inline void check_ids(const Launch& w, const Record& r, const Positions& p, int64_t row) {
  for (int32_t i = 0; i < p.n; ++i) {
    if (static_cast<uint32_t>(in_global(r.ids)[p.begin + i]) >= r.rows) report_fault(w, r, row);
  }
}

/// The pooled columns of this lane's group. All lanes of the warp call it together.
template <int kVec, int kFlight, class Head>
__device__ inline Values<kVec> pool_groups(const Head& w, const Record* records, const BagTask& task,
                                           int32_t column, const Lanes& lanes) {
  const Record& mine = records[task.record];
  const Positions p = positions_of(w, mine, task.row, lanes.sub == 0 && column == 0);
  if (w.faults != nullptr && lanes.sub == 0 && column == 0) check_ids(w, mine, p, task.row);
  const bool is_long = p.total > kLookupLongBag && lanes.groups > 1;
  int any = is_long ? 1 : 0;
  for (int32_t step = 1 << lanes.log2; step < kWarp; step *= 2) any |= __shfl_xor_sync(kAllLanes, any, step);
  Pool<kVec> pool;
  // g = -1: each group pools its own bag unless it is long; g = 0, 1 ...: all groups pool that of group g.
  DPI_ROLLED
  for (int32_t g = -1; g < (any != 0 ? lanes.groups : 0); ++g) {
    const int32_t lane = (g < 0 ? lanes.group : g) << lanes.log2;
    const bool shared = __shfl_sync(kAllLanes, is_long ? 1 : 0, lane) != 0;
    const int32_t record = __shfl_sync(kAllLanes, task.record, lane);
    const int64_t row = __shfl_sync(kAllLanes, task.row, lane);
    if (g >= 0 && !shared) continue;
    const Record& r = records[record];
    const Positions all = positions_of(w, r, g < 0 && shared ? -1 : row, false);
    Pool<kVec> group_sum =
        pool_positions<kVec, kFlight>(w, r, all, g < 0 ? 0 : lanes.group, g < 0 ? 1 : lanes.groups, column);
    if (g >= 0) join_groups(r, lanes, &group_sum);
    if (g < 0 || lanes.group == g) pool = group_sum;
  }
  return finished(mine, pool);
}

/// warp, warps: of the `bags` blocks. A tile is one field's rows, as many as a warp has groups.
template <int kVec, bool kNarrow, class Head>
__device__ inline void pool_bags(const Head& w, const View& view, int32_t warp, int32_t warps) {
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  for (int32_t tile = warp; tile < w.bag_tiles; tile += warps) {
    const int32_t index = record_of_unit(view.records, w.bags, tile);
    const Record& r = view.records[index];
    const Lanes lanes = lanes_of(lane, lanes_for(kVec, r.width));
    const int64_t place = int64_t{tile - r.first_unit} * lanes.groups + lanes.group;
    BagTask task{index, place < w.rows ? place : -1};
    if (task.row >= 0 && w.order != nullptr) task.row = w.order[(index - w.bags.begin) * w.rows + place];
    for (int32_t first = 0; first < r.width; first += kVec << lanes.log2) {
      const int32_t column = first + lanes.sub * kVec;
      const Values<kVec> y = pool_groups < kVec, kVec == 4 ? 4 : 2 > (w, view.records, task, column, lanes);
      if (task.row >= 0 && column < r.width)
        store_vector<kVec, kNarrow>(w, out_column(r, column), task.row, y);
    }
  }
}

}  // namespace dpi::kernels::cuda
