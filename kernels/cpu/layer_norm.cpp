#include <dpi/kernels/layer_norm.hpp>

#include "kernels/cpu/simd/vec.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

/// Two passes: the mean, then the squares around it. The mean is rounded to a float, and where the values of
/// a row hardly differ that rounding is as large as their differences from it; the sum of the centred values,
/// 0 for the exact mean, says how far off it is. Variance and result are those around the corrected mean.
void normalise(const float* x, const float* gamma, const float* beta, int64_t d, float eps, float* dst) {
  const float inverse = 1.0f / static_cast<float>(d);
  Vec total = Vec::zero();
  for_vectors(d, [&](int64_t i, int64_t n) { total = total + load_n(x + i, n); });
  const Vec mean = Vec::all(total.sum() * inverse);
  Vec centred = Vec::zero(), squares = Vec::zero();
  float rest = 0, rest_squares = 0;
  for_vectors(d, [&](int64_t i, int64_t n) {
    const Vec c = load_n(x + i, n) - mean;
    if (n == Vec::W) {
      centred = centred + c;
      squares = fma(c, c, squares);
      return;
    }
    float values[Vec::W];
    c.store(values);
    for (int64_t k = 0; k < n; ++k) {
      rest += values[k];
      rest_squares += values[k] * values[k];
    }
  });
  const float off = (centred.sum() + rest) * inverse;  // exact mean - mean
  const float variance =
      (squares.sum() + rest_squares) * inverse - off * off;  // rounding can take it below 0
  const Vec scale = Vec::all(1.0f) / sqrt(Vec::all((variance < 0 ? 0 : variance) + eps));
  for_vectors(d, [&](int64_t i, int64_t n) {
    Vec y = ((load_n(x + i, n) - mean) - Vec::all(off)) * scale;
    if (gamma != nullptr) y = y * load_n(gamma + i, n);
    if (beta != nullptr) y = y + load_n(beta + i, n);
    store_n(dst + i, y, n);
  });
}

/// The part of a parameter [d] or [F, d] that belongs to slice i of x [.., F, d].
const float* slice_of(const Param& p, int64_t i, int64_t d) {
  return p.data == nullptr ? nullptr : p.data + i % (dims_size(p.dims) / d) * d;
}

}  // namespace

void layer_norm(const LayerNormArgs& a) {
  const int64_t d = a.x.dims.d[a.x.dims.rank - 1];
  if (d == 0) return;
  const int64_t slices = dims_size(a.x.dims) / d;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const float* const counts = a.positions.data == nullptr ? nullptr : row_of(a.positions, r);
    for (int64_t i = 0; i < slices; ++i) {
      float* const dst = row_of(a.dst, r) + i * d;
      if (counts != nullptr && counts[i] == 0) {
        for_vectors(d, [&](int64_t k, int64_t n) { store_n(dst + k, Vec::zero(), n); });
        continue;
      }
      normalise(row_of(a.x, r) + i * d, slice_of(a.gamma, i, d), slice_of(a.beta, i, d), d, a.attrs.eps, dst);
    }
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
