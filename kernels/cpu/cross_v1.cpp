#include <dpi/kernels/cross_v1.hpp>

#include "kernels/cpu/simd/vec.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

/// x_{l+1} = x0 s + b + x_l, and in the same pass s' = w_next . x_{l+1} (w_next may be null).
DPI_INLINE float cross_step(const float* x0, const float* xl, const float* b, const float* w_next, float s,
                            float* dst, int64_t n) {
  const Vec vs = Vec::all(s);
  Vec even = Vec::zero(), odd = Vec::zero();
  const auto step = [&](int64_t i, int64_t k, Vec sum) {
    const Vec y = fma(load_n(x0 + i, k), vs, load_n(b + i, k) + load_n(xl + i, k));
    store_n(dst + i, y, k);
    return w_next == nullptr ? sum : fma(load_n(w_next + i, k), y, sum);
  };
  int64_t i = 0;
  for (; i + 2 * Vec::W <= n; i += 2 * Vec::W) {
    even = step(i, Vec::W, even);
    odd = step(i + Vec::W, Vec::W, odd);
  }
  for (; i < n; i += Vec::W) even = step(i, min_of<int64_t>(n - i, Vec::W), even);
  return (even + odd).sum();
}

}  // namespace

void cross_v1(const CrossV1Args& a) {
  const int64_t n = dims_size(a.x0.dims);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const float* x0 = row_of(a.x0, r);
    float* y = row_of(a.dst, r);
    const float* xl = x0;
    float s = dot(a.w.data, x0, n);
    for (int64_t l = 0; l < a.attrs.layers; ++l) {
      const float* w_next = l + 1 < a.attrs.layers ? a.w.data + (l + 1) * n : nullptr;
      s = cross_step(x0, xl, a.b.data + l * n, w_next, s, y, n);
      xl = y;
    }
  }
}

void cross_v1_closed(const CrossV1ClosedArgs& a) {
  const int64_t layers = a.attrs.layers;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const float* p = row_of(a.p, r);
    float scale = 1.0f;
    for (int64_t l = 0; l < layers; ++l) scale = scale * (1.0f + p[l]) + a.k.data[l];
    *row_of(a.dst, r) = scale * p[layers] + a.y0.data[0];
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
