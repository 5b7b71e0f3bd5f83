#include "tests/gpu/tools/tiers_chain.hpp"

#include "kernels/cuda/common/loads.hpp"

namespace dpi::gpu::chain {
namespace {

using kernels::cuda::blocks_for;
using kernels::cuda::global_thread;
using kernels::cuda::kAllLanes;
using kernels::cuda::kWarp;
using kernels::cuda::launch;
using kernels::cuda::total_threads;

constexpr int kThreads = 128;

__device__ inline int32_t lane_of() { return static_cast<int32_t>(threadIdx.x) % kWarp; }

/// The largest of a full warp's values, the same in every lane.
__device__ inline int32_t warp_most(int32_t v) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int32_t other = __shfl_xor_sync(kAllLanes, v, step);
    v = other > v ? other : v;
  }
  return v;
}

/// The least.
__device__ inline int64_t warp_least(int64_t v) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const int64_t other = __shfl_xor_sync(kAllLanes, v, step);
    v = other < v ? other : v;
  }
  return v;
}

/// By a warp.
__device__ inline void copy_row(float4* to, const float4* from, int32_t vectors) {
  DPI_ROLLED
  for (int32_t v = lane_of(); v < vectors; v += kWarp) to[v] = from[v];
}

__global__ void __launch_bounds__(kThreads) chain_clear_kernel(const Work w) {
  for (int64_t i = global_thread(); i < w.slots; i += total_threads()) w.slot_keys[i] = -1;
  if (global_thread() < 2) w.counts[global_thread()] = 0;
}

__global__ void __launch_bounds__(kThreads) chain_unique_kernel(const Work w) {
  for (int64_t i = global_thread(); i < w.n; i += total_threads()) {
    const int32_t key = w.keys[i];
    int32_t at = set_of(key, w.slots);
    for (;; at = (at + 1) & (w.slots - 1)) {
      const int old = atomicCAS(w.slot_keys + at, -1, key);
      if (old == key) break;
      if (old != -1) continue;
      const int index = atomicAdd(w.counts, 1);
      w.slot_index[at] = index;
      w.unique[index] = key;
      break;
    }
    w.slot_of[i] = at;
  }
}

__global__ void __launch_bounds__(kThreads)
    chain_query_kernel(const Work w, const Cache c, int32_t n_unique, int32_t stamp) {
  const int32_t lane = lane_of();
  for (int64_t u = global_thread() / kWarp; u < n_unique; u += total_threads() / kWarp) {
    const int32_t key = w.unique[u];
    const int64_t set = int64_t{set_of(key, c.sets)} * kWays;
    const int32_t way = warp_most(c.keys[set + lane] == key ? lane : -1);
    if (way >= 0) {
      if (lane == 0) c.stamps[set + way] = stamp;
      copy_row(w.rows + u * c.vectors, c.rows + (set + way) * c.vectors, c.vectors);
    } else if (lane == 0) {
      const int m = atomicAdd(w.counts + 1, 1);
      w.miss_keys[m] = key;
      w.miss_at[m] = static_cast<int32_t>(u);
    }
  }
}

/// The line that the warp took for its key, -1 where every one of the set is in use by this call.
__device__ inline int64_t take_line(const Cache& c, int64_t set, int32_t stamp) {
  const int32_t lane = lane_of();
  for (;;) {
    const int32_t mine = atomicCAS(c.stamps + set + lane, -2, -2);  // a read that no cache answers
    const int64_t oldest = warp_least(int64_t{mine} * kWays + lane);
    const auto way = static_cast<int32_t>(oldest & (kWays - 1));
    const auto seen = static_cast<int32_t>((oldest - way) / kWays);
    if (seen >= stamp) return -1;
    const int32_t won = lane == 0 && atomicCAS(c.stamps + set + way, seen, stamp) == seen ? 1 : 0;
    if (__shfl_sync(kAllLanes, won, 0) != 0) return set + way;
  }
}

__global__ void __launch_bounds__(kThreads)
    chain_insert_kernel(const Work w, const Cache c, int32_t n_missing, int32_t stamp) {
  for (int64_t m = global_thread() / kWarp; m < n_missing; m += total_threads() / kWarp) {
    const int32_t key = w.miss_keys[m];
    const float4* const row = w.brought + m * c.vectors;
    if (w.rows != nullptr) copy_row(w.rows + int64_t{w.miss_at[m]} * c.vectors, row, c.vectors);
    const int64_t line = take_line(c, int64_t{set_of(key, c.sets)} * kWays, stamp);
    if (line < 0) continue;
    copy_row(c.rows + line * c.vectors, row, c.vectors);
    if (lane_of() == 0) c.keys[line] = key;
  }
}

/// Neighbouring threads copy the vectors of one row.
__global__ void __launch_bounds__(kThreads)
    chain_expand_kernel(const Work w, float4* out, int64_t stride, int32_t vectors) {
  for (int64_t i = global_thread(); i < int64_t{w.n} * vectors; i += total_threads()) {
    const int64_t key = i / vectors, v = i % vectors;
    out[key * stride + v] = w.rows[int64_t{w.slot_index[w.slot_of[key]]} * vectors + v];
  }
}

}  // namespace

int clear(const Work& w, Stream stream) {
  return launch(chain_clear_kernel, dim3(blocks_for(w.slots, kThreads)), dim3(kThreads), stream, w);
}

int find_unique(const Work& w, Stream stream) {
  return launch(chain_unique_kernel, dim3(blocks_for(w.n, kThreads)), dim3(kThreads), stream, w);
}

int query(const Work& w, const Cache& c, int32_t n_unique, int32_t stamp, Stream stream) {
  const dim3 grid(blocks_for(int64_t{n_unique} * kWarp, kThreads));
  return launch(chain_query_kernel, grid, dim3(kThreads), stream, w, c, n_unique, stamp);
}

int insert(const Work& w, const Cache& c, int32_t n_missing, int32_t stamp, Stream stream) {
  const dim3 grid(blocks_for(int64_t{n_missing} * kWarp, kThreads));
  return launch(chain_insert_kernel, grid, dim3(kThreads), stream, w, c, n_missing, stamp);
}

int expand(const Work& w, float4* out, int64_t stride, int32_t vectors, Stream stream) {
  const dim3 grid(blocks_for(int64_t{w.n} * vectors, kThreads));
  return launch(chain_expand_kernel, grid, dim3(kThreads), stream, w, out, stride, vectors);
}

}  // namespace dpi::gpu::chain
