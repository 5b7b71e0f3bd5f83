// GRU and its attention forms: one block per row, a thread per unit, the state in scratch between barriers.
#include "kernels/cuda/common/apply.hpp"
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/kernels.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kUnitThreads = 64;

/// scratch of one row: h [m], g [3m] = W_i x + b_i, u [3m] = W_h h + b_h.
struct State {
  float* h;
  float* g;
  float* u;
};

__device__ float affine(const Param& w, const Param& b, int64_t row, const float* v, int64_t depth) {
  Sum sum;
  for (int64_t k = 0; k < depth; ++k) sum.add_product(w.data[row * depth + k], v[k]);
  return sum.value() + (b.data != nullptr ? b.data[row] : 0.0f);
}

__device__ float update(RecurrentKind kind, float h, float n, float z, float att) {
  switch (kind) {
    case RecurrentKind::kAgru:
      return (1 - att) * h + att * n;
    case RecurrentKind::kAugru:
      return (1 - att * z) * h + att * z * n;
    case RecurrentKind::kVecAtt:
      return (1 - att) * z * h + (1 - (1 - att) * z) * n;
    default:
      return (1 - z) * n + z * h;
  }
}

/// One valid position. All threads of the block call it together: it has barriers.
__device__ void step(const RecurrentArgs& a, const float* x, float att, int64_t m, const State& s) {
  const int64_t in = a.x.dims.d[1];
  const bool before = a.attrs.reset == ResetGate::kBefore;
  const int64_t first = threadIdx.x;
  for (int64_t j = first; j < 3 * m; j += kUnitThreads) s.g[j] = affine(a.w_input, a.b_input, j, x, in);
  for (int64_t j = first; j < (before ? 2 : 3) * m; j += kUnitThreads)
    s.u[j] = affine(a.w_hidden, a.b_hidden, j, s.h, m);
  __syncthreads();
  for (int64_t j = first; j < m; j += kUnitThreads) {
    const float r = sigmoid(s.g[j] + s.u[j]);
    s.u[m + j] = sigmoid(s.g[m + j] + s.u[m + j]);
    if (before) {
      s.g[j] = r * s.h[j];
    } else {
      s.u[2 * m + j] *= r;
    }
  }
  __syncthreads();
  if (before) {
    for (int64_t j = first; j < m; j += kUnitThreads)
      s.u[2 * m + j] = affine(a.w_hidden, a.b_hidden, 2 * m + j, s.g, m);
  }
  __syncthreads();
  for (int64_t j = first; j < m; j += kUnitThreads)
    s.h[j] = update(a.attrs.kind, s.h[j], tanhf(s.g[2 * m + j] + s.u[2 * m + j]), s.u[m + j], att);
  __syncthreads();
}

__global__ void __launch_bounds__(kUnitThreads) recurrent_kernel(const RecurrentArgs a, int64_t m) {
  const int64_t r = blockIdx.x;
  float* scratch = static_cast<float*>(a.scratch) + r * 7 * m;
  const State s{scratch, scratch + m, scratch + 4 * m};
  const bool all = a.attrs.output == RecurrentOutput::kAll;
  for (int64_t j = threadIdx.x; j < m; j += kUnitThreads) s.h[j] = 0;
  __syncthreads();
  for (int64_t t = 0; t < a.x.dims.d[0]; ++t) {
    const bool valid = row_of(a.mask, r)[t] != 0;  // the same for the whole block
    if (valid)
      step(a, row_of(a.x, r) + t * a.x.dims.d[1], a.att.data != nullptr ? row_of(a.att, r)[t] : 0, m, s);
    for (int64_t j = threadIdx.x; all && j < m; j += kUnitThreads)
      row_of(a.dst, r)[t * m + j] = valid ? s.h[j] : 0.0f;
  }
  for (int64_t j = threadIdx.x; !all && j < m; j += kUnitThreads) row_of(a.dst, r)[j] = s.h[j];
}

}  // namespace

int recurrent(const RecurrentArgs& a, Stream stream) {
  const dim3 grid(blocks_for(a.dst.rows, 1, 0x7fffffff));
  return launch(recurrent_kernel, grid, dim3(kUnitThreads), stream, a, a.dst.dims.at(-1));
}

}  // namespace dpi::kernels::cuda
