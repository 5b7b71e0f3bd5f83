// CoAction: a warp per row. Its items pass through the micro-MLP one after another in the warp's shared
// memory, a lane per number of a level; the weights stay in the caches, neighbours read by neighbouring
// lanes.
#include <dpi/kernels/co_action.hpp>

#include "kernels/cuda/common/apply.hpp"
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/common/rows.hpp"
#include "kernels/cuda/kernels.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kWarps = kThreads / kWarp;

/// A warp's numbers: what goes into a level, what comes out, the sums of the row.
struct WarpNumbers {
  float* x;
  float* y;
  float* sums;
};

__device__ int lane_index() { return static_cast<int>(threadIdx.x) % kWarp; }

/// x: the powers of the feed, order by order (joined or not, they lie alike).
__device__ void take_feed(const CoActionArgs& a, int64_t r, int32_t id, float* x) {
  const int n = a.attrs.feed_dim;
  for (int e = lane_index(); e < n * a.attrs.orders; e += kWarp) {
    const int column = a.attrs.feed_col + e % n;
    const float v = a.x.data != nullptr ? row_of(a.x, r)[column] : element_at(a.table, id, column);
    float power = v;
    for (int p = e / n; p > 0; --p) power *= v;
    x[e] = power;
  }
  __syncwarp();
}

/// y = act(x W + b) of every run.
__device__ void run_level(const CoActionAttrs& a, const MicroLevel& level, const float* induction, int runs,
                          const WarpNumbers& s) {
  for (int e = lane_index(); e < runs * level.outputs; e += kWarp) {
    const int run = e / level.outputs;
    const int o = e % level.outputs;
    const float* w = induction + run * a.weight_step;
    const float* x = s.x + run * level.inputs;
    Sum sum;
    for (int i = 0; i < level.inputs; ++i) sum.add_product(x[i], w[level.weight + i * level.outputs + o]);
    const float bias = level.bias < 0 ? 0.0f : w[level.bias + o];
    s.y[e] = apply_unary(level.act, sum.value() + bias, {});
  }
  __syncwarp();
}

/// A lane per column of the level in dst, so that no two lanes add to one.
__device__ void collect(const CoActionAttrs& a, const MicroLevel& level, int runs, const WarpNumbers& s) {
  const bool added = a.out_step == 0;
  for (int e = lane_index(); e < (added ? 1 : runs) * level.outputs; e += kWarp) {
    const int run = e / level.outputs;
    const int o = e % level.outputs;
    float sum = s.y[e];
    for (int p = 1; added && p < runs; ++p) sum += s.y[p * level.outputs + o];
    s.sums[level.out_col + run * a.out_step + o] += sum;
  }
}

__device__ void add_item(const CoActionArgs& a, int64_t r, int32_t id, WarpNumbers s) {
  const int runs = a.attrs.joined != 0 ? 1 : a.attrs.orders;
  take_feed(a, r, id, s.x);
  for (int l = 0; l < a.attrs.n_levels; ++l) {
    const MicroLevel& level = a.attrs.levels[l];
    run_level(a.attrs, level, row_of(a.induction, r), runs, s);
    if (level.out_col >= 0) collect(a.attrs, level, runs, s);
    __syncwarp();
    float* const free = s.x;
    s.x = s.y;
    s.y = free;
  }
}

__global__ void __launch_bounds__(kThreads) co_action_kernel(const CoActionArgs a) {
  DPI_SHARED(float, numbers, kWarps * 3 * kMaxMicroNumbers);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t r = int64_t{blockIdx.x} * kWarps + warp;
  if (r >= a.dst.rows) return;  // a whole warp
  float* const mine = numbers + warp * 3 * kMaxMicroNumbers;
  const WarpNumbers s{mine, mine + kMaxMicroNumbers, mine + 2 * kMaxMicroNumbers};
  const int n = static_cast<int>(size_of(a.dst.dims));
  for (int e = lane_index(); e < n; e += kWarp) s.sums[e] = 0;
  __syncwarp();
  int counted = 1;
  if (a.x.data != nullptr) {
    add_item(a, r, 0, s);
  } else {
    const Bag bag = bag_of(a.ids, a.row_map != nullptr ? a.row_map[r] : r);
    counted = 0;
    for (int64_t t = 0; t < bag.n; ++t) {
      if (a.attrs.mask == MaskRule::kId && bag.ids[t] == a.attrs.pad_id) continue;
      add_item(a, r, bag.ids[t], s);
      ++counted;
    }
  }
  const float divisor = a.attrs.mean != 0 && counted > 1 ? static_cast<float>(counted) : 1.0f;
  for (int e = lane_index(); e < n; e += kWarp) row_of(a.dst, r)[e] = s.sums[e] / divisor;
}

}  // namespace

int co_action(const CoActionArgs& a, Stream stream) {
  return launch(co_action_kernel, dim3(blocks_for(a.dst.rows, kWarps, 0x7fffffff)), dim3(kThreads), stream,
                a);
}

}  // namespace dpi::kernels::cuda
