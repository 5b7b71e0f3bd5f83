#include <dpi/kernels/dense.hpp>

#include "apply.hpp"

namespace dpi::kernels::ref {
namespace {

// act(W x + b + shared) of row r, output column o
double activated(const DenseArgs& a, const UnaryAttrs& act, int64_t r, int64_t o) {
  const float* x = a.x.row(r);
  const int64_t in = a.weight.dims.at(-1);
  double h = a.bias.data != nullptr ? a.bias.data[o] : 0;
  for (int64_t k = 0; k < in; ++k) h += double{a.weight.data[o * in + k]} * x[k];
  if (a.shared.data != nullptr) h += a.shared.row(a.row_map == nullptr ? r : a.row_map[r])[o];
  return apply_unary(act, h, channel_params(a.p0, a.p1, a.p2, o));
}

}  // namespace

void dense(const DenseArgs& a) {
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int32_t s = 0; s < a.attrs.n_segments; ++s) {
      const DenseSegment& segment = a.attrs.segments[s];
      for (int64_t o = segment.begin; o < segment.end; ++o) {
        double y = activated(a, segment.act, r, o);
        if (a.mul.data != nullptr) y *= a.mul.row(r)[o];
        if (a.add.data != nullptr) y += a.add.row(r)[o];
        a.dst.row(r)[o] = static_cast<float>(y);
      }
    }
  }
}

}  // namespace dpi::kernels::ref
