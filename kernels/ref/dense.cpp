#include <dpi/kernels/dense.hpp>

#include "apply.hpp"

namespace dpi::kernels::ref {
namespace {

// act(W x + b) of output column o
double activated(const DenseArgs& a, const UnaryAttrs& act, const float* x, int64_t o) {
  const int64_t in = a.weight.dims.at(-1);
  double h = a.bias.data != nullptr ? a.bias.data[o] : 0;
  for (int64_t k = 0; k < in; ++k) h += double{a.weight.data[o * in + k]} * x[k];
  return apply_unary(act, h, channel_params(a.p0, a.p1, a.p2, o));
}

}  // namespace

void dense(const DenseArgs& a) {
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int32_t s = 0; s < a.attrs.n_segments; ++s) {
      const DenseSegment& segment = a.attrs.segments[s];
      for (int64_t o = segment.begin; o < segment.end; ++o) {
        double y = activated(a, segment.act, a.x.row(r), o);
        if (a.mul.data != nullptr) y *= a.mul.row(r)[o];
        if (a.add.data != nullptr) y += a.add.row(r)[o];
        a.dst.row(r)[o] = static_cast<float>(y);
      }
    }
  }
}

}  // namespace dpi::kernels::ref
