// The ops that one warp does for one row: the DCN cross networks, FM, Tail, LayerNorm.
#include "kernels/cuda/common/apply.hpp"
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/common/loads.hpp"
#include "kernels/cuda/common/typed.hpp"
#include "kernels/cuda/kernels.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kWarps = kThreads / kWarp;

__device__ int64_t warp_index() { return int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp; }
__device__ int lane_index() { return static_cast<int>(threadIdx.x) % kWarp; }
dim3 grid_for_rows(int64_t rows) { return dim3(blocks_for(rows, kWarps, 0x7fffffff)); }

/// x_l lives in dst; a lane owns the columns lane, lane + 32, ..., so no other lane reads what it writes.
__global__ void __launch_bounds__(kThreads) cross_v1_kernel(const Tensor x0, const float* w, const float* b,
                                                            int64_t layers, int64_t n, const Tensor dst) {
  const int64_t r = warp_index();
  if (r >= dst.rows) return;  // a whole warp
  const int lane = lane_index();
  const float* x = row_of(x0, r);
  float* y = row_of(dst, r);
  for (int64_t k = lane; k < n; k += kWarp) y[k] = x[k];
  for (int64_t l = 0; l < layers; ++l) {
    float dot = 0;
    for (int64_t k = lane; k < n; k += kWarp) dot = fmaf(w[l * n + k], y[k], dot);
    dot = warp_sum(dot);
    for (int64_t k = lane; k < n; k += kWarp) y[k] += fmaf(x[k], dot, b != nullptr ? b[l * n + k] : 0.0f);
  }
}

__global__ void __launch_bounds__(kThreads)
    cross_v1_closed_kernel(const Tensor p, const float* k, const float* y0, int64_t layers,
                           const Tensor dst) {
  const int64_t r = global_thread();
  if (r >= dst.rows) return;
  const float* s = row_of(p, r);
  float a = 1;
  for (int64_t l = 0; l < layers; ++l) a = fmaf(a, 1.0f + s[l], k[l]);
  row_of(dst, r)[0] = fmaf(a, s[layers], y0[0]);
}

__global__ void __launch_bounds__(kThreads)
    fm_kernel(const Tensor x, int64_t fields, int64_t dim, const Tensor dst) {
  const int64_t r = warp_index();
  if (r >= dst.rows) return;
  const float* e = row_of(x, r);
  float total = 0;
  for (int64_t k = lane_index(); k < dim; k += kWarp) {
    float s = 0;
    float squares = 0;
    for (int64_t f = 0; f < fields; ++f) {
      const float v = e[f * dim + k];
      s += v;
      squares = fmaf(v, v, squares);
    }
    total += 0.5f * (s * s - squares);
  }
  total = warp_sum(total);
  if (lane_index() == 0) row_of(dst, r)[0] = total;
}

struct TailBranch {
  const void* x;
  const float* w;
  int64_t stride;
  int64_t n;
  DType dtype;
  int32_t aligned;  // rows and weights, to 16 bytes
};

struct TailWork {
  TailBranch branches[kMaxTailInputs];  // `weighted` ones, then scalars
  Tensor logit;
  Tensor value;
  int64_t rows;
  int32_t weighted;
  int32_t scalars;
  float bias;
  UnaryAttrs act;
};

/// A lane's loads in flight for a branch: 16 bytes of neighbouring columns and their weights.
template <class E>
struct TailPiece {
  static constexpr int kColumns = 16 / static_cast<int>(sizeof(E));
  uint32_t x[4];
  uint32_t w[kColumns];
};

__device__ inline uint32_t bits_at(const float* x) { return load4(x, RowHint::kPlain); }
template <class E>
__device__ inline uint32_t bits_at(const E* x) {
  return x->bits;
}

template <class E, bool kAligned>
__device__ inline void load_piece(const E* x, const float* w, TailPiece<E>* p) {
  constexpr int kColumns = TailPiece<E>::kColumns;
  if constexpr (kAligned) {
    load16(x, RowHint::kPlain, p->x);
    DPI_UNROLL
    for (int j = 0; j < kColumns; j += 4) load16(w + j, RowHint::kPlain, p->w + j);
  } else {
    DPI_UNROLL
    for (int j = 0; j < 4; ++j) {
      p->x[j] = bits_at(x + j * kColumns / 4);
      if constexpr (kColumns == 8) p->x[j] |= bits_at(x + j * 2 + 1) << 16;
    }
    DPI_UNROLL
    for (int j = 0; j < kColumns; ++j) p->w[j] = load4(w + j, RowHint::kPlain);
  }
}

template <class E>
__device__ inline float element_of(const TailPiece<E>& p, int j) {
  if constexpr (sizeof(E) == sizeof(float)) {
    return float_of(p.x[j]);
  } else {
    return widened(E{static_cast<uint16_t>(p.x[j / 2] >> (j % 2 * 16))});
  }
}

/// `sum` and the calling lane's terms of one row of a branch. Which columns a lane has and in which order is
/// the same wherever the row lies: so are the bits of the sum.
template <class E, bool kAligned>
__device__ inline float add_terms(const TailBranch& b, int64_t r, int lane, float sum) {
  constexpr int kColumns = TailPiece<E>::kColumns;
  constexpr int kApart = kWarp * kColumns;
  constexpr int kInFlight = 16 / kColumns;  // 512 columns of a warp
  const E* x = static_cast<const E*>(b.x) + r * b.stride;
  const float* w = b.w;
  const auto n = static_cast<int>(b.n);
  const int whole = n / kColumns * kColumns;
  const int last = whole + lane;  // of the columns that fill no piece
  const float last_w = last < n ? w[last] : 0.0f;
  E last_x = {};
  if (last < n) last_x = x[last];
  x += lane * kColumns;
  w += lane * kColumns;
  DPI_ROLLED
  for (int left = whole - lane * kColumns; left > 0; left -= kInFlight * kApart) {
    TailPiece<E> p[kInFlight] = {};
    DPI_UNROLL
    for (int i = 0; i < kInFlight; ++i) {
      if (i * kApart < left) load_piece<E, kAligned>(x + i * kApart, w + i * kApart, &p[i]);
    }
    DPI_UNROLL
    for (int j = 0; j < kColumns;
         ++j) {  // across the pieces: no compiler can use one before it loads the next
      DPI_UNROLL
      for (int i = 0; i < kInFlight; ++i) sum = fmaf(float_of(p[i].w[j]), element_of(p[i], j), sum);
    }
    x += kInFlight * kApart;
    w += kInFlight * kApart;
  }
  return fmaf(last_w, widened(last_x), sum);
}

template <class E>
__device__ inline float add_branch(const TailBranch& b, int64_t r, int lane, float sum) {
  return b.aligned != 0 ? add_terms<E, true>(b, r, lane, sum) : add_terms<E, false>(b, r, lane, sum);
}

/// The bits of a scalar branch of row r: read first, looked at last.
__device__ inline uint32_t scalar_bits(const TailBranch& b, int64_t r) {
  if (b.dtype == DType::kF32) return load4(static_cast<const float*>(b.x) + r * b.stride, RowHint::kPlain);
  return static_cast<const uint16_t*>(b.x)[r * b.stride];
}

__device__ inline float scalar_of(uint32_t bits, DType type) {
  const auto narrow = static_cast<uint16_t>(bits);
  return type == DType::kF32   ? float_of(bits)
         : type == DType::kF16 ? widened(Half{narrow})
                               : widened(Bfloat16{narrow});
}

__global__ void __launch_bounds__(kThreads) tail_kernel(const TailWork t) {
  const int64_t r = warp_index();
  if (r >= t.rows) return;
  const int lane = lane_index();
  const TailBranch* scalars = t.branches + t.weighted;
  uint32_t bits = 0;
  if (lane < t.scalars) bits = scalar_bits(scalars[lane], r);
  float sum = 0;
  DPI_ROLLED
  for (int32_t i = 0; i < t.weighted; ++i) {
    const TailBranch& b = t.branches[i];
    sum = b.dtype == DType::kF32   ? add_branch<float>(b, r, lane, sum)
          : b.dtype == DType::kF16 ? add_branch<Half>(b, r, lane, sum)
                                   : add_branch<Bfloat16>(b, r, lane, sum);
  }
  float scalar = lane < t.scalars ? scalar_of(bits, scalars[lane].dtype) : 0.0f;
  DPI_ROLLED
  for (int32_t i = lane + kWarp; i < t.scalars; i += kWarp)
    scalar += scalar_of(scalar_bits(scalars[i], r), scalars[i].dtype);
  sum = warp_sum(sum);
  const float logit = sum + (t.scalars > 0 ? t.bias + warp_sum(scalar) : t.bias);
  if (lane != 0) return;
  if (t.logit.data != nullptr) row_of(t.logit, r)[0] = logit;
  if (t.value.data != nullptr) row_of(t.value, r)[0] = apply_unary(t.act, logit, {});
}

bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

TailBranch tail_branch(const Tensor& x, const float* w) {
  const bool aligned = is_aligned(x.data) && is_aligned(w) && x.row_stride * dtype_bytes(x.dtype) % 16 == 0;
  return {x.data, w, x.row_stride, x.dims.size(), x.dtype, aligned ? 1 : 0};
}

struct LayerNormWork {
  Tensor x;
  Tensor dst;
  const float* gamma;
  const float* beta;
  int64_t gamma_slices;
  int64_t beta_slices;
  int64_t d;
  int64_t slices;  // of a row
  float eps;
  Tensor positions;  // a number per slice; where it is 0, so is the slice of dst
};

/// Mean, then squares around it, corrected by how far the rounded mean is off (as cpu/layer_norm.cpp). dst
/// may be x: a lane reads its columns before it writes them.
__global__ void __launch_bounds__(kThreads) layer_norm_kernel(const LayerNormWork w) {
  const int64_t index = warp_index();
  const int64_t r = index / w.slices;
  if (r >= w.dst.rows) return;
  const int64_t i = index % w.slices;
  const int lane = lane_index();
  const float* x = row_of(w.x, r) + i * w.d;
  float* y = row_of(w.dst, r) + i * w.d;
  if (left_out(w.positions, r, i)) {
    for (int64_t k = lane; k < w.d; k += kWarp) y[k] = 0;
    return;  // a whole warp
  }
  float sum = 0;
  for (int64_t k = lane; k < w.d; k += kWarp) sum += x[k];
  const float mean = warp_sum(sum) / static_cast<float>(w.d);
  float centred = 0, squares = 0;
  for (int64_t k = lane; k < w.d; k += kWarp) {
    centred += x[k] - mean;
    squares = fmaf(x[k] - mean, x[k] - mean, squares);
  }
  const float off = warp_sum(centred) / static_cast<float>(w.d);  // exact mean - mean
  const float variance = warp_sum(squares) / static_cast<float>(w.d) - off * off;
  const float scale = 1.0f / sqrtf((variance < 0 ? 0 : variance) + w.eps);  // keeps a NaN
  const float* gamma = w.gamma != nullptr ? w.gamma + i % w.gamma_slices * w.d : nullptr;
  const float* beta = w.beta != nullptr ? w.beta + i % w.beta_slices * w.d : nullptr;
  for (int64_t k = lane; k < w.d; k += kWarp) {
    const float g = gamma != nullptr ? gamma[k] : 1.0f;
    y[k] = fmaf(((x[k] - mean) - off) * scale, g, beta != nullptr ? beta[k] : 0.0f);
  }
}

}  // namespace

int cross_v1(const CrossV1Args& a, Stream stream) {
  return launch(cross_v1_kernel, grid_for_rows(a.dst.rows), dim3(kThreads), stream, a.x0, a.w.data, a.b.data,
                a.attrs.layers, a.dst.dims.size(), a.dst);
}

int cross_v1_closed(const CrossV1ClosedArgs& a, Stream stream) {
  return launch(cross_v1_closed_kernel, dim3(blocks_for(a.dst.rows, kThreads, 0x7fffffff)), dim3(kThreads),
                stream, a.p, a.k.data, a.y0.data, a.attrs.layers, a.dst);
}

int fm(const FmArgs& a, Stream stream) {
  return launch(fm_kernel, grid_for_rows(a.dst.rows), dim3(kThreads), stream, a.x, a.attrs.fields,
                a.attrs.dim, a.dst);
}

int tail(const TailArgs& a, Stream stream) {
  TailWork t = {};
  for (const bool weighted : {true, false}) {
    int32_t n = 0;
    for (int64_t i = 0; i < a.n_inputs; ++i) {
      if ((a.weights[i].data != nullptr) != weighted) continue;
      t.branches[t.weighted + n++] = tail_branch(a.inputs[i].tensor, a.weights[i].data);
    }
    (weighted ? t.weighted : t.scalars) = n;
  }
  t.logit = a.logit;
  t.value = a.value;
  t.rows = a.rows;
  t.bias = a.attrs.bias;
  t.act = a.attrs.act;
  return launch(tail_kernel, grid_for_rows(a.rows), dim3(kThreads), stream, t);
}

int layer_norm(const LayerNormArgs& a, Stream stream) {
  LayerNormWork w = {};
  w.x = a.x;
  w.dst = a.dst;
  w.gamma = a.gamma.data;
  w.beta = a.beta.data;
  w.d = a.x.dims.at(-1);
  if (w.d == 0) return 0;
  w.slices = a.x.dims.size() / w.d;
  if (w.slices == 0) return 0;
  w.gamma_slices = w.gamma != nullptr ? a.gamma.dims.size() / w.d : 1;
  w.beta_slices = w.beta != nullptr ? a.beta.dims.size() / w.d : 1;
  w.eps = a.attrs.eps;
  w.positions = a.positions;
  return launch(layer_norm_kernel, grid_for_rows(a.dst.rows * w.slices), dim3(kThreads), stream, w);
}

}  // namespace dpi::kernels::cuda
