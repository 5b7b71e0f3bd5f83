// The ops with one thread per output element and no sums: unary, binary, where, fused steps of these, concat,
// views, the row broadcast.
#include "kernels/cuda/common/apply.hpp"
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/common/typed.hpp"
#include "kernels/cuda/kernels.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int64_t kMaxBlocks = 8192;  // the rest is walked over

/// Calls f(row, element) for every element of dst's rows.
template <class F>
__device__ void for_elements(const Tensor& dst, const F& f) {
  const int64_t n = size_of(dst.dims);
  for (int64_t i = global_thread(); i < dst.rows * n; i += total_threads()) f(i / n, i % n);
}

dim3 grid_for(const Tensor& dst) {
  return dim3(blocks_for(dst.rows * dst.dims.size(), kThreads, kMaxBlocks));
}

__global__ void __launch_bounds__(kThreads)
    unary_kernel(UnaryAttrs attrs, const Tensor x, const ChannelArrays channels, const Tensor positions,
                 const Tensor dst) {
  const int64_t width = dst.dims.rank > 0 ? dst.dims.d[dst.dims.rank - 1] : 1;
  for_elements(dst, [&](int64_t r, int64_t i) {
    row_of(dst, r)[i] = left_out(positions, r, i / width)
                            ? 0.0f
                            : apply_unary(attrs, row_of(x, r)[i], channel_at(channels, i % width));
  });
}

__global__ void __launch_bounds__(kThreads)
    binary_kernel(BinaryKind kind, const Tensor x, const Tensor y, const Tensor positions, const Tensor dst) {
  const int64_t width = dst.dims.rank > 0 ? dst.dims.d[dst.dims.rank - 1] : 1;
  for_elements(dst, [&](int64_t r, int64_t i) {
    if (left_out(positions, r, i / width)) {
      row_of(dst, r)[i] = 0;
      return;
    }
    const float a = row_of(x, r)[broadcast_offset(dst.dims, i, x.dims)];
    const float b = row_of(y, r)[broadcast_offset(dst.dims, i, y.dims)];
    row_of(dst, r)[i] = apply_binary(kind, a, b);
  });
}

__global__ void __launch_bounds__(kThreads)
    where_kernel(const Tensor cond, const Tensor yes, const Tensor no, const Tensor dst) {
  for_elements(dst, [&](int64_t r, int64_t i) {
    const float c = row_of(cond, r)[broadcast_offset(dst.dims, i, cond.dims)];
    const float y = row_of(yes, r)[broadcast_offset(dst.dims, i, yes.dims)];
    const float n = row_of(no, r)[broadcast_offset(dst.dims, i, no.dims)];
    row_of(dst, r)[i] = apply_where(c, y, n);
  });
}

struct ElementwiseWork {
  ElementwiseAttrs attrs;
  Tensor inputs[kMaxElementwiseInputs];
  ChannelArrays channels[kMaxElementwiseSteps];
  Tensor dst;
};

__device__ float run_steps(const ElementwiseWork& c, float* reg, int64_t column) {
  for (int32_t k = 0; k < c.attrs.n_steps; ++k) {
    const ElementwiseStep& step = c.attrs.steps[k];
    const float x = reg[step.x];
    reg[c.attrs.n_inputs + k] = step.kind == StepKind::kBinary ? apply_binary(step.binary, x, reg[step.y])
                                : step.kind == StepKind::kWhere
                                    ? apply_where(x, reg[step.y], reg[step.z])
                                    : apply_unary(step.unary, x, channel_at(c.channels[k], column));
  }
  return reg[c.attrs.n_inputs + c.attrs.n_steps - 1];
}

__global__ void __launch_bounds__(kThreads) elementwise_kernel(const ElementwiseWork c) {
  const Dims& dims = c.dst.dims;
  const int64_t width = dims.rank > 0 ? dims.d[dims.rank - 1] : 1;
  float reg[kMaxElementwiseInputs + kMaxElementwiseSteps];
  for_elements(c.dst, [&](int64_t r, int64_t i) {
    for (int32_t j = 0; j < c.attrs.n_inputs; ++j)
      reg[j] = read_at(c.inputs[j], r, broadcast_offset(dims, i, c.inputs[j].dims));
    write_at(c.dst, r, i, run_steps(c, reg, i % width));
  });
}

/// One input of a concatenation; `begin`: where it starts on the axis.
__global__ void __launch_bounds__(kThreads) concat_kernel(const Tensor x, const AxisView from, int64_t to_n,
                                                          int64_t begin, int64_t rows, const Tensor dst) {
  const int64_t n = from.outer * from.n * from.inner;
  const int64_t run = from.n * from.inner;
  for (int64_t i = global_thread(); i < rows * n; i += total_threads()) {
    const int64_t r = i / n;
    const int64_t k = i % n;
    row_of(dst, r)[(k / run * to_n + begin) * from.inner + k % run] = row_of(x, r)[k];
  }
}

struct ViewWork {
  ViewAttrs attrs;
  Tensor x;
  Tensor dst;
  AxisView from;
  AxisView to;
};

__device__ int64_t source_offset(const ViewWork& v, int64_t flat) {
  switch (v.attrs.kind) {
    case ViewKind::kTranspose:
      return transposed_offset(v.x.dims, v.attrs.dims, flat);
    case ViewKind::kSlice:
    case ViewKind::kIndexSelect: {
      const int64_t i = flat / v.to.inner % v.to.n;
      const int64_t from = v.attrs.kind == ViewKind::kSlice ? v.attrs.begin + i : v.attrs.indices[i];
      return (flat / (v.to.inner * v.to.n) * v.from.n + from) * v.from.inner + flat % v.to.inner;
    }
    case ViewKind::kExpand:
      return broadcast_offset(v.dst.dims, flat, v.x.dims);
    default:
      return flat;
  }
}

__global__ void __launch_bounds__(kThreads) view_kernel(const ViewWork v) {
  for_elements(v.dst,
               [&](int64_t r, int64_t i) { row_of(v.dst, r)[i] = row_of(v.x, r)[source_offset(v, i)]; });
}

__global__ void __launch_bounds__(kThreads)
    broadcast_rows_kernel(const Tensor x, const int32_t* row_map, const Tensor dst) {
  for_elements(dst, [&](int64_t r, int64_t i) {
    write_at(dst, r, i, read_at(x, row_map != nullptr ? row_map[r] : r, i));
  });
}

}  // namespace

int unary(const UnaryArgs& a, Stream stream) {
  return launch(unary_kernel, grid_for(a.dst), dim3(kThreads), stream, a.attrs, a.x,
                channel_arrays(a.p0, a.p1, a.p2), a.positions, a.dst);
}

int binary(const BinaryArgs& a, Stream stream) {
  return launch(binary_kernel, grid_for(a.dst), dim3(kThreads), stream, a.attrs.kind, a.x, a.y, a.positions,
                a.dst);
}

int where(const WhereArgs& a, Stream stream) {
  return launch(where_kernel, grid_for(a.dst), dim3(kThreads), stream, a.cond, a.yes, a.no, a.dst);
}

int elementwise(const ElementwiseArgs& a, Stream stream) {
  ElementwiseWork c = {};
  c.attrs = a.attrs;
  c.dst = a.dst;
  for (int32_t i = 0; i < a.attrs.n_inputs; ++i) c.inputs[i] = a.inputs[i].tensor;
  for (int32_t k = 0; k < a.attrs.n_steps; ++k) {
    const ElementwiseStep& step = a.attrs.steps[k];
    Param p[3];
    for (int32_t i = 0; i < step.n_params && i < 3 && step.param >= 0; ++i) p[i] = a.params[step.param + i];
    c.channels[k] = channel_arrays(p[0], p[1], p[2]);
  }
  return launch(elementwise_kernel, grid_for(a.dst), dim3(kThreads), stream, c);
}

int concat(const ConcatArgs& a, Stream stream) {
  int64_t begin = 0;
  for (int64_t j = 0; j < a.n_inputs; ++j) {
    const Tensor& x = a.inputs[j].tensor;
    const AxisView from = AxisView(x.dims, a.attrs.axis);
    const dim3 grid(blocks_for(a.dst.rows * x.dims.size(), kThreads, kMaxBlocks));
    const int code = launch(concat_kernel, grid, dim3(kThreads), stream, x, from, a.dst.dims.d[a.attrs.axis],
                            begin, a.dst.rows, a.dst);
    if (code != 0) return code;
    begin += from.n;
  }
  return 0;
}

int view(const ViewArgs& a, Stream stream) {
  ViewWork v = {};
  v.attrs = a.attrs;
  v.x = a.x;
  v.dst = a.dst;
  if (a.attrs.kind == ViewKind::kSlice || a.attrs.kind == ViewKind::kIndexSelect) {
    v.from = AxisView(a.x.dims, a.attrs.axis);
    v.to = AxisView(a.dst.dims, a.attrs.axis);
  }
  return launch(view_kernel, grid_for(a.dst), dim3(kThreads), stream, v);
}

int broadcast_rows(const BroadcastRowsArgs& a, Stream stream) {
  return launch(broadcast_rows_kernel, grid_for(a.dst), dim3(kThreads), stream, a.x, a.row_map, a.dst);
}

}  // namespace dpi::kernels::cuda
