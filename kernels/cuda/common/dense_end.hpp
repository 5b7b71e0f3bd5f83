// The end of a Dense op, common to all its kernels, for a finished sum: bias, what shared rows add, the
// activation of the column's segment, times one tensor, plus another. Used by dense.cu, gemm/wmma.cu and
// gemm/around_library.cu.
#pragma once

#include <dpi/kernels/dense.hpp>

#include "kernels/cuda/common/apply.hpp"
#include "kernels/cuda/common/typed.hpp"

namespace dpi::kernels::cuda {

/// A matrix whose rows are `stride` elements apart; data null = absent.
struct TypedRows {
  void* data = nullptr;
  int64_t stride = 0;
  DType dtype = DType::kF32;
};

inline TypedRows typed_rows(const Tensor& t) { return {t.data, t.row_stride, t.dtype}; }

struct DenseEnd {
  const float* bias = nullptr;
  TypedRows mul;
  TypedRows add;
  TypedRows shared;
  const int32_t* row_map = nullptr;
  TypedRows dst;
  int64_t rows = 0;
  int64_t out = 0;
  const DenseSegment* segments = nullptr;
  int32_t n_segments = 0;
  ChannelArrays channels;
};

inline DenseEnd dense_end(const DenseArgs& a) {
  DenseEnd e;
  e.bias = a.bias.data;
  e.mul = typed_rows(a.mul);
  e.add = typed_rows(a.add);
  e.shared = typed_rows(a.shared);
  e.row_map = a.row_map;
  e.dst = typed_rows(a.dst);
  e.rows = a.dst.rows;
  e.out = a.dst.dims.size();
  e.segments = a.attrs.segments;
  e.n_segments = a.attrs.n_segments;
  e.channels = channel_arrays(a.p0, a.p1, a.p2);
  return e;
}

/// Values that all rows of one column share.
struct ColumnEnd {
  UnaryAttrs act;
  Channel channel;
  float bias = 0;
};

__device__ inline ColumnEnd column_end(const DenseEnd& e, int64_t column) {
  ColumnEnd c;
  for (int32_t s = e.n_segments - 1; s >= 0; --s) {
    if (column < e.segments[s].end) c.act = e.segments[s].act;
  }
  c.channel = channel_at(e.channels, column);
  if (e.bias != nullptr) c.bias = e.bias[column];
  return c;
}

/// dst may be add: each element is read by the thread that writes it.
__device__ inline void finish(const DenseEnd& e, const ColumnEnd& c, int64_t row, int64_t column, float sum) {
  float h = sum + c.bias;
  if (e.shared.data != nullptr) {
    const int64_t from = e.row_map != nullptr ? e.row_map[row] : row;
    h += read_element(e.shared.data, e.shared.dtype, from * e.shared.stride + column);
  }
  float y = apply_unary(c.act, h, c.channel);
  if (e.mul.data != nullptr) y *= read_element(e.mul.data, e.mul.dtype, row * e.mul.stride + column);
  if (e.add.data != nullptr) y += read_element(e.add.data, e.add.dtype, row * e.add.stride + column);
  write_element(e.dst.data, e.dst.dtype, row * e.dst.stride + column, y);
}

}  // namespace dpi::kernels::cuda
