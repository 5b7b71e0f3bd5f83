// Dense: linear + bias + activation, optionally times a tensor and plus a residual. One op for MLP layers,
// for cross v2 layers (x_{l+1} = x0 * (W x_l + b) + x_l, DCN V2, arXiv 2008.13535) and for several layers
// that share their input merged into one GEMM.
//
//   h = W x + b + shared[row_map];  h[:, seg] = act_seg(h[:, seg]);  dst = h * mul + add
//
// `shared` is what columns of the layer that are the same for many rows gave, multiplied once for all of
// them.
#pragma once

#include <dpi/kernels/unary.hpp>

namespace dpi::kernels {

/// Columns [begin, end) of the output share an activation. Segments are ascending, disjoint and cover all
/// columns. param offsets index the op's `act` params: p0/p1/p2 hold the concatenated channel parameters of
/// all segments, from the column `begin` on (prelu with one slope is stored per column).
struct DenseSegment {
  UnaryAttrs act;  // any kind; kIdentity = none
  int64_t begin = 0;
  int64_t end = 0;
};

struct DenseAttrs {
  const DenseSegment* segments = nullptr;
  int32_t n_segments = 0;
};

/// x: [rows, in]; weight [out, in]; bias [out] or absent; mul, add: [rows, out], data null when absent; dst:
/// [rows, out]. p0, p1, p2: [out] each, or absent. dst may alias add, never x or mul. All tensors may have
/// row_stride > width. shared: [any rows, out], data null when absent; row r of x adds its row row_map[r]
/// (row_map null: row r), before the function.
struct DenseArgs {
  DenseAttrs attrs;
  Tensor x;
  Param weight;
  Param bias;
  Param p0;
  Param p1;
  Param p2;
  Tensor mul;
  Tensor add;
  Tensor shared;
  const int32_t* row_map = nullptr;
  void* packed = nullptr;  // what the backend made of weight at prepare; null in ref
  void* scratch = nullptr;
  Tensor dst;
};

namespace ref {
void dense(const DenseArgs& a);
}

}  // namespace dpi::kernels
