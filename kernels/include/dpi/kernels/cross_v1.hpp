// DCN's cross network (Deep & Cross Network, arXiv 1708.05123, eq. 3): x_{l+1} = x0 (w_l . x_l) + b_l + x_l.
// CrossV1 runs it step by step; CrossV1Closed uses x_l = a_l x0 + c_l, so that only the scalars p_l = w_l .
// x0 are needed:
//   a_0 = 1,  a_{l+1} = a_l (1 + p_l) + k_l   with k_l = w_l . c_l,  c_l = b_0 + .. + b_{l-1}
//   y = a_L q + y0     with q = w_out . x0 and y0 = w_out . c_L
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

struct CrossV1Attrs {
  int64_t layers = 0;
};

/// x0: [rows, n]; w, b: [layers, n]; dst: [rows, n], aliases nothing. layers >= 1.
struct CrossV1Args {
  CrossV1Attrs attrs;
  Tensor x0;
  Param w;
  Param b;
  Tensor dst;
};

/// p: [rows, layers + 1] = (p_0 .. p_{L-1}, q); k: [layers]; y0: [1]; dst: [rows, 1]. a_l in float32, as the
/// sums are.
struct CrossV1ClosedArgs {
  CrossV1Attrs attrs;
  Tensor p;
  Param k;
  Param y0;
  Tensor dst;
};

namespace ref {
void cross_v1(const CrossV1Args& a);
void cross_v1_closed(const CrossV1ClosedArgs& a);
}  // namespace ref
namespace cpu {
void cross_v1(const CrossV1Args& a);
void cross_v1_closed(const CrossV1ClosedArgs& a);
}  // namespace cpu

}  // namespace dpi::kernels
