// Kernels before and after a product that a vendor library computes: x converted to the element type, or
// split into the three tf32 operands of 3xTF32, and the part of a Dense op's end that no library fuses. A
// thread has four columns of several rows, and loads all of some rows before it uses any, because these
// kernels wait for memory.
#include "kernels/cuda/common/dense_end.hpp"
#include "kernels/cuda/common/four.hpp"
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/gemm/gemm.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kInvalidValue = 1;  // cudaErrorInvalidValue

// ---- before

/// x, of which columns from n on read as zeros.
struct WiderRows {
  TypedRows x;
  int64_t n;
  int64_t rows;
  bool in_fours;
  Spread spread;
};

WiderRows wider_rows(const Tensor& x, int64_t width) {
  return {typed_rows(x), x.dims.size(), x.rows, lies_in_fours(x.data, x.row_stride, x.dtype),
          spread_over(width / 4, x.rows)};
}

constexpr int kRowsInFlight = 4;

/// to(row, column, values) for the calling thread's four columns of each of its rows.
template <class To>
__device__ void for_fours(const WiderRows& w, const To& to) {
  const Share share(w.spread);
  if (!share.exists) return;
  const int64_t c = int64_t{share.column} * 4;
  const int64_t step = w.spread.slots;
  if (!w.in_fours || c + 4 > w.n) {
    DPI_ROLLED
    for (int64_t r = share.slot; r < w.rows; r += step) {
      float v[4];
      DPI_UNROLL
      for (int k = 0; k < 4; ++k)
        v[k] = c + k < w.n ? read_element(w.x.data, w.x.dtype, r * w.x.stride + c + k) : 0.0f;
      to(r, c, v);
    }
    return;
  }
  DPI_ROLLED
  for (int64_t first = share.slot; first < w.rows; first += kRowsInFlight * step) {
    RawFour raw[kRowsInFlight];
    DPI_UNROLL
    for (int i = 0; i < kRowsInFlight; ++i) {
      const int64_t r = first + i * step;
      if (r < w.rows) load_four(w.x.data, w.x.dtype, r * w.x.stride + c, &raw[i]);
    }
    DPI_UNROLL
    for (int i = 0; i < kRowsInFlight; ++i) {
      const int64_t r = first + i * step;
      if (r >= w.rows) break;
      float v[4];
      widen_four(raw[i], w.x.dtype, v);
      to(r, c, v);
    }
  }
}

/// `width`: of all slabs together, before x is split.
__global__ void __launch_bounds__(kThreads)
    split_rows_kernel(const WiderRows w, uint32_t depth, int64_t width, float* to) {
  for_fours(w, [=](int64_t r, int64_t c, const float(&v)[4]) {
    float low[4];
    float high[4];
    DPI_UNROLL
    for (int k = 0; k < 4; ++k) {
      high[k] = tf32_of(v[k]);
      low[k] = tf32_of(v[k] - high[k]);
    }
    const int64_t slabs_before = static_cast<uint32_t>(c) / depth;
    const int64_t at = r * 3 * width + c + 2 * slabs_before * depth;
    store_four(to, DType::kF32, at, low);
    store_four(to, DType::kF32, at + depth, high);
    store_four(to, DType::kF32, at + 2 * int64_t{depth}, high);
  });
}

__global__ void __launch_bounds__(kThreads) convert_rows_kernel(const WiderRows w, const TypedRows to) {
  for_fours(w, [=](int64_t r, int64_t c, const float(&v)[4]) {
    store_four(to.data, to.dtype, r * to.stride + c, v);
  });
}

// ---- after

struct Finish {
  DenseEnd end;
  const float* sums;
  int64_t stride;
  Spread spread;
};

constexpr int kFinishRows = 2;  // in flight: of each, three arrays

__device__ void finish_column(const Finish& f, int64_t c, int64_t slot) {
  const ColumnEnd end = column_end(f.end, c);
  DPI_ROLLED
  for (int64_t r = slot; r < f.end.rows; r += f.spread.slots)
    finish(f.end, end, r, c, f.sums[r * f.stride + c]);
}

/// The segment of a column; segments cover all columns.
__device__ inline const DenseSegment& segment_of(const DenseEnd& e, int64_t column) {
  int32_t s = 0;
  DPI_ROLLED
  while (s + 1 < e.n_segments && column >= e.segments[s].end) ++s;
  return e.segments[s];
}

/// Values that all rows of four columns share.
struct FourEnd {
  UnaryAttrs act;  // of the first
  bool one_act;
  float bias[4];
};

__device__ inline FourEnd four_end(const DenseEnd& e, int64_t c) {
  FourEnd f = {};
  if (e.n_segments > 0) {
    const DenseSegment& segment = segment_of(e, c);
    f.act = segment.act;
    f.one_act = e.n_segments == 1 || c + 4 <= segment.end;
  }
  DPI_UNROLL
  for (int k = 0; k < 4; ++k) f.bias[k] = e.bias != nullptr ? e.bias[c + k] : 0.0f;
  return f;
}

struct FourRows {
  float v[kFinishRows * 4];
};

/// The kinds that most layers have at once; for all others one copy of apply_unary, through which the values
/// go in a circle: an index that varies would put them into local memory.
__device__ inline void activate(const DenseEnd& e, const FourEnd& f, int64_t c, FourRows* y) {
  constexpr int kAll = kFinishRows * 4;
  if (f.one_act && f.act.kind == UnaryKind::kIdentity) return;
  if (f.one_act && f.act.kind == UnaryKind::kRelu) {
    DPI_UNROLL
    for (int i = 0; i < kAll; ++i) y->v[i] = y->v[i] < 0 ? 0 : y->v[i];
    return;
  }
  DPI_ROLLED
  for (int i = 0; i < kAll; ++i) {
    const int64_t column = c + i % 4;
    const UnaryAttrs act = f.one_act ? f.act : segment_of(e, column).act;
    const float v = apply_unary(act, y->v[0], channel_at(e.channels, column));
    DPI_UNROLL
    for (int k = 1; k < kAll; ++k) y->v[k - 1] = y->v[k];
    y->v[kAll - 1] = v;
  }
}

/// Loads kFinishRows rows of another tensor from `first` on, `step` apart.
__device__ inline void load_rows(const TypedRows& from, int64_t first, int64_t step, int64_t rows, int64_t c,
                                 RawFour (&to)[kFinishRows]) {
  if (from.data == nullptr) return;
  DPI_UNROLL
  for (int i = 0; i < kFinishRows; ++i) {
    const int64_t r = first + i * step;
    if (r < rows) load_four(from.data, from.dtype, r * from.stride + c, &to[i]);
  }
}

__device__ inline void add_shared(const DenseEnd& e, int64_t first, int64_t step, int64_t c, FourRows* y) {
  DPI_UNROLL
  for (int i = 0; i < kFinishRows; ++i) {
    const int64_t r = first + i * step;
    if (r >= e.rows) break;
    const int64_t from = e.row_map != nullptr ? e.row_map[r] : r;
    RawFour raw = {};
    float v[4];
    load_four(e.shared.data, e.shared.dtype, from * e.shared.stride + c, &raw);
    widen_four(raw, e.shared.dtype, v);
    DPI_UNROLL
    for (int k = 0; k < 4; ++k) y->v[i * 4 + k] += v[k];
  }
}

/// f(a result, an element of `with`) becomes the result, where there is such a tensor.
template <class F>
__device__ inline void combine(const TypedRows& with, const RawFour (&raw)[kFinishRows], FourRows* y,
                               const F& f) {
  if (with.data == nullptr) return;
  DPI_UNROLL
  for (int i = 0; i < kFinishRows; ++i) {
    float v[4];
    widen_four(raw[i], with.dtype, v);
    DPI_UNROLL
    for (int k = 0; k < 4; ++k) y->v[i * 4 + k] = f(y->v[i * 4 + k], v[k]);
  }
}

/// The same as finish(), bit by bit. dst may be the sums or add: all of a thread's rows in flight are read
/// before one of them is written, and no other thread has elements of them.
__device__ inline void finish_fours(const Finish& f, int64_t c, int64_t slot) {
  const DenseEnd& e = f.end;
  const int64_t step = f.spread.slots;
  const TypedRows sums = {const_cast<float*>(f.sums), f.stride, DType::kF32};
  const FourEnd end = four_end(e, c);
  DPI_ROLLED
  for (int64_t first = slot; first < e.rows; first += kFinishRows * step) {
    RawFour sum[kFinishRows] = {};
    RawFour mul[kFinishRows] = {};
    RawFour add[kFinishRows] = {};
    load_rows(sums, first, step, e.rows, c, sum);
    load_rows(e.mul, first, step, e.rows, c, mul);
    load_rows(e.add, first, step, e.rows, c, add);
    FourRows y;
    DPI_UNROLL
    for (int i = 0; i < kFinishRows * 4; ++i) y.v[i] = float_of(sum[i / 4].w[i % 4]) + end.bias[i % 4];
    if (e.shared.data != nullptr) add_shared(e, first, step, c, &y);
    activate(e, end, c, &y);
    combine(e.mul, mul, &y, [](float a, float b) { return __fmul_rn(a, b); });
    combine(e.add, add, &y, [](float a, float b) { return __fadd_rn(a, b); });
    DPI_UNROLL
    for (int i = 0; i < kFinishRows; ++i) {
      const int64_t r = first + i * step;
      if (r >= e.rows) break;
      const float v[4] = {y.v[i * 4], y.v[i * 4 + 1], y.v[i * 4 + 2], y.v[i * 4 + 3]};
      store_four(e.dst.data, e.dst.dtype, r * e.dst.stride + c, v);
    }
  }
}

/// kColumns: 4 where all rows lie in fours, or 1.
template <int kColumns>
__global__ void __launch_bounds__(kThreads) finish_dense_kernel(const Finish f) {
  const Share share(f.spread);
  if (!share.exists) return;
  int64_t c = int64_t{share.column} * kColumns;
  if constexpr (kColumns == 4) {
    if (c + 4 <= f.end.out) {
      finish_fours(f, c, share.slot);
      return;
    }
  }
  DPI_ROLLED
  for (int k = 0; k < kColumns && c < f.end.out; ++k, ++c) finish_column(f, c, share.slot);
}

bool absent_or_in_fours(const TypedRows& t) {
  return t.data == nullptr || lies_in_fours(t.data, t.stride, t.dtype);
}

}  // namespace

int split_rows(const Tensor& x, float* to, int64_t slabs, Stream stream) {
  const int64_t depth = split_depth(x.dims.size(), slabs);
  const int64_t width = depth * slabs;
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0) return kInvalidValue;
  const WiderRows w = wider_rows(x, width);
  return launch(split_rows_kernel, w.spread.grid(), dim3(kThreads), stream, w, static_cast<uint32_t>(depth),
                width, to);
}

int convert_rows(const Tensor& x, void* to, DType type, int64_t stride, Stream stream) {
  if (!lies_in_fours(to, stride, type)) return kInvalidValue;
  const WiderRows w = wider_rows(x, stride);
  return launch(convert_rows_kernel, w.spread.grid(), dim3(kThreads), stream, w, TypedRows{to, stride, type});
}

int finish_dense(const DenseArgs& a, const float* sums, int64_t stride, Stream stream) {
  Finish f = {};
  f.end = dense_end(a);
  f.sums = sums;
  f.stride = stride;
  const DenseEnd& e = f.end;
  const bool fours = lies_in_fours(sums, stride, DType::kF32) && absent_or_in_fours(e.mul) &&
                     absent_or_in_fours(e.add) && absent_or_in_fours(e.shared) && absent_or_in_fours(e.dst);
  f.spread = spread_over(fours ? (e.out + 3) / 4 : e.out, e.rows);
  if (fours) return launch(finish_dense_kernel<4>, f.spread.grid(), dim3(kThreads), stream, f);
  return launch(finish_dense_kernel<1>, f.spread.grid(), dim3(kThreads), stream, f);
}

}  // namespace dpi::kernels::cuda
