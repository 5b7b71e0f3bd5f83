// Tasks of the small-batch kernel other than products: channels of the lookup, element-wise ops, FM, the
// closed cross network, Tail. A warp does one row of one task.
#pragma once

#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/small_batch/launch.hpp"
#include "kernels/cuda/small_batch/values.hpp"

namespace dpi::kernels::cuda::small_batch {

/// The result of a task for one element: to later levels and, when the value is read outside, to memory.
template <class Element>
struct TaskSink {
  const ThreadInfo& p;
  const Output* outputs;
  int32_t row;

  __device__ void put(const View& dst, int32_t output, int32_t column, float x) const {
    put_one<Element>(p, dst, row, column, x);
    if (output < 0 || row >= p.rows || outputs[output].data == nullptr) return;
    outputs[output].data[(p.first_row + row) * outputs[output].stride + column] = x;
  }
};

/// Column k of FM so far: the sum of the vectors, and that of their pairs.
struct FmColumn {
  float before = 0;
  float pairs = 0;

  __device__ void add(float e) {
    pairs = fmaf(e, before, pairs);
    before += e;
  }
};

__device__ inline void add_fm_run(const ThreadInfo& p, const Channels& c, const FmRun run, int32_t row,
                                  int32_t k, FmColumn* column) {
  const float* x = shared_at<float>(p, run.x.wide_at) + row * run.x.wide_pitch;
  if (run.vec_at >= 0) {
    const float* vec = shared_at<float>(p, run.vec_at) + k;
    const int32_t dim = c.fm_dim;
    DPI_UNROLL_BY(4)
    for (int32_t i = 0; i < run.count; ++i) column->add(x[i * run.apart] * vec[i * dim]);
    return;
  }
  DPI_UNROLL_BY(8)
  for (int32_t i = 0; i < run.count; ++i) column->add(x[i * run.apart + k]);
}

/// This lane's share of FM: columns lane, lane + 32, ...
__device__ inline float fm_of_lane(const ThreadInfo& p, const Channels& c, int32_t row) {
  const FmRun* runs = shared_at<FmRun>(p, c.fm_runs_at);
  float total = 0;
  for (int32_t k = p.lane; k < c.fm_dim; k += kWarp) {
    FmColumn column;
    for (int32_t i = 0; i < c.n_fm_runs; ++i) add_fm_run(p, c, runs[i], row, k, &column);
    total += column.pairs;
  }
  return total;
}

template <class Element>
__device__ float channel_of_lane(const ThreadInfo& p, const Channels& c, int32_t row, int32_t channel) {
  const Scalar* scalars = shared_at<Scalar>(p, c.scalars_at);
  const Numeric* numerics = shared_at<Numeric>(p, c.numerics_at);
  float sum = 0;
  for (int32_t i = p.lane; i < c.n_scalars; i += kWarp) {
    const int32_t k = channel - scalars[i].first_channel;
    if (k >= 0 && k < scalars[i].count) sum += get<Element>(p, scalars[i].x, row, k);
  }
  for (int32_t i = p.lane; i < c.n_numerics; i += kWarp) {
    const float x = get<Element>(p, numerics[i].x, row, 0);
    const float* coef = shared_at<float>(p, numerics[i].coef_at);
    sum = fmaf(x, coef[channel], sum);
  }
  return channel == c.fm_channel ? sum + fm_of_lane(p, c, row) : sum;
}

template <class Element>
__device__ void run_channels(const ThreadInfo& p, const Channels& c, const TaskSink<Element>& sink) {
  for (int32_t channel = 0; channel < c.n_channels; ++channel) {
    const float sum = warp_sum(channel_of_lane<Element>(p, c, sink.row, channel));
    const float bias = c.bias_at >= 0 ? shared_at<float>(p, c.bias_at)[channel] : 0.0f;
    if (p.lane == 0) sink.put(c.dst, -1, channel, sum + bias);
  }
}

__device__ inline Channel step_channel(const ThreadInfo& p, const Elementwise& e, int32_t step,
                                       int32_t column) {
  Channel c;
  const int32_t* at = e.params_at[step];
  const int32_t* single = e.single[step];
  if (at[0] >= 0) c.p0 = shared_at<float>(p, at[0])[single[0] != 0 ? 0 : column];
  if (at[1] >= 0) c.p1 = shared_at<float>(p, at[1])[single[1] != 0 ? 0 : column];
  if (at[2] >= 0) c.p2 = shared_at<float>(p, at[2])[single[2] != 0 ? 0 : column];
  c.present = at[0] >= 0;
  return c;
}

template <class Element>
__device__ void run_elementwise(const ThreadInfo& p, const Elementwise& e, const TaskSink<Element>& sink) {
  const ElementwiseAttrs& a = e.attrs;
  const auto width = static_cast<int32_t>(e.dst_dims.rank > 0 ? e.dst_dims.d[e.dst_dims.rank - 1] : 1);
  float reg[kMaxElementwiseInputs + kMaxElementwiseSteps];
  for (int32_t i = p.lane; i < e.n; i += kWarp) {
    for (int32_t j = 0; j < a.n_inputs; ++j) {
      const auto from = static_cast<int32_t>(broadcast_offset(e.dst_dims, i, e.dims[j]));
      reg[j] = get<Element>(p, e.inputs[j], sink.row, from);
    }
    for (int32_t k = 0; k < a.n_steps; ++k) {
      const ElementwiseStep& s = a.steps[k];
      const float x = reg[s.x];
      reg[a.n_inputs + k] = s.kind == StepKind::kBinary ? apply_binary(s.binary, x, reg[s.y])
                            : s.kind == StepKind::kWhere
                                ? apply_where(x, reg[s.y], reg[s.z])
                                : unary_of(s.unary, x, step_channel(p, e, k, i % width));
    }
    sink.put(e.dst, e.output, i, reg[a.n_inputs + a.n_steps - 1]);
  }
}

template <class Element>
__device__ void run_fm(const ThreadInfo& p, const Fm& f, const TaskSink<Element>& sink) {
  float total = 0;
  for (int32_t k = p.lane; k < f.dim; k += kWarp) {
    float s = 0;
    float squares = 0;
    for (int32_t i = 0; i < f.fields; ++i) {
      const float e = get<Element>(p, f.x, sink.row, i * f.dim + k);
      s += e;
      squares = fmaf(e, e, squares);
    }
    total += 0.5f * (s * s - squares);
  }
  total = warp_sum(total);
  if (p.lane == 0) sink.put(f.dst, f.output, 0, total);
}

template <class Element>
__device__ void run_cross_v1_closed(const ThreadInfo& p, const CrossV1Closed& c,
                                    const TaskSink<Element>& sink) {
  if (p.lane != 0) return;
  const float* k = shared_at<float>(p, c.k_at);
  float a = 1;
  for (int32_t l = 0; l < c.layers; ++l) a = fmaf(a, 1.0f + get<Element>(p, c.p, sink.row, l), k[l]);
  const float q = get<Element>(p, c.p, sink.row, c.layers);
  sink.put(c.dst, c.output, 0, fmaf(a, q, shared_at<float>(p, c.y0_at)[0]));
}

template <class Element>
__device__ void run_tail(const ThreadInfo& p, const Tail& t, const TaskSink<Element>& sink) {
  const Branch* branches = shared_at<Branch>(p, t.branches_at);
  float sum = 0;
  float scalars = t.bias;
  for (int32_t i = 0; i < t.n_branches; ++i) {
    const Branch b = branches[i];  // in registers
    if (b.weight_at < 0) {
      scalars += get<Element>(p, b.x, sink.row, 0);
      continue;
    }
    const float* w = shared_at<float>(p, b.weight_at);
    DPI_UNROLL_BY(4)
    for (int32_t k = p.lane; k < b.n; k += kWarp) sum = fmaf(w[k], get<Element>(p, b.x, sink.row, k), sum);
  }
  const float logit = warp_sum(sum) + scalars;
  if (p.lane != 0) return;
  sink.put(t.logit, t.logit_output, 0, logit);
  sink.put(t.value, t.value_output, 0, unary_of(t.act, logit, {}));
}

template <class Element>
__device__ void run_copy(const ThreadInfo& p, const Copy& c, const TaskSink<Element>& sink) {
  for (int32_t k = p.lane; k < c.padded; k += kWarp)
    sink.put(c.dst, -1, k, k < c.n ? get<Element>(p, c.src, sink.row, k) : 0.0f);
}

/// One row of a task. Not inlined, and its arguments by value, for the reasons given at gather.hpp
/// put_fetched. Compared in order: a switch becomes an indirect jump, for which a table is read.
template <class Element>
static DPI_COLD __device__ void run_task(const ThreadInfo p, const Task t, const Output* outputs,
                                         int32_t row) {
  const TaskSink<Element> sink{p, outputs, row};
  if (t.kind <= TaskKind::kChannels) return run_channels(p, *shared_at<Channels>(p, t.op_at), sink);
  if (t.kind >= TaskKind::kCopy) return run_copy(p, *shared_at<Copy>(p, t.op_at), sink);
  if (t.kind >= TaskKind::kTail) return run_tail(p, *shared_at<Tail>(p, t.op_at), sink);
  if (t.kind >= TaskKind::kCrossV1Closed)
    return run_cross_v1_closed(p, *shared_at<CrossV1Closed>(p, t.op_at), sink);
  if (t.kind >= TaskKind::kFm) return run_fm(p, *shared_at<Fm>(p, t.op_at), sink);
  run_elementwise(p, *shared_at<Elementwise>(p, t.op_at), sink);
}

/// The rows of this rank of all tasks of a level, from the last warp on: the first ones have products to do.
template <class Element>
__device__ void run_tasks(const ThreadInfo& p, const Level& level, const Output* outputs) {
  const int32_t rows = (kTileRows - p.rank + p.ranks - 1) / p.ranks;
  DPI_ROLLED
  for (int32_t i = p.warps - 1 - p.warp; i < level.n_tasks * rows; i += p.warps) {
    const Task t = shared_at<Task>(p, level.tasks_at)[i / rows];
    run_task<Element>(p, t, outputs, p.rank + i % rows * p.ranks);
  }
}

}  // namespace dpi::kernels::cuda::small_batch
