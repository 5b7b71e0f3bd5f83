#include <algorithm>
#include <cmath>

#include <dpi/kernels/layer_norm.hpp>

#include "apply.hpp"

namespace dpi::kernels::ref {
namespace {

// x, dst: [d], may be the same. gamma, beta: [d] or null.
void normalise(const float* x, const float* gamma, const float* beta, int64_t d, double eps, float* dst) {
  double mean = 0;
  for (int64_t k = 0; k < d; ++k) mean += x[k];
  mean /= static_cast<double>(d);
  double variance = 0;
  for (int64_t k = 0; k < d; ++k) variance += (x[k] - mean) * (x[k] - mean);
  variance /= static_cast<double>(d);
  const double scale = 1 / std::sqrt(variance + eps);
  for (int64_t k = 0; k < d; ++k) {
    const double y =
        (x[k] - mean) * scale * (gamma != nullptr ? gamma[k] : 1) + (beta != nullptr ? beta[k] : 0);
    dst[k] = static_cast<float>(y);
  }
}

// The part of a parameter [d] or [F, d] that belongs to slice i of x [.., F, d].
const float* slice_of(const Param& p, int64_t i, int64_t d) {
  if (p.data == nullptr) return nullptr;
  return p.data + (i % (p.dims.size() / d)) * d;
}

}  // namespace

void layer_norm(const LayerNormArgs& a) {
  const int64_t d = a.x.dims.at(-1);
  const int64_t n = a.x.dims.size() / d;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t i = 0; i < n; ++i) {
      if (left_out(a.positions, r, i)) {
        std::fill_n(a.dst.row(r) + i * d, d, 0.0f);
        continue;
      }
      normalise(a.x.row(r) + i * d, slice_of(a.gamma, i, d), slice_of(a.beta, i, d), d, a.attrs.eps,
                a.dst.row(r) + i * d);
    }
  }
}

}  // namespace dpi::kernels::ref
