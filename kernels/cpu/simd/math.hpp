// exp, expm1, sigmoid, tanh over Vec: range reduction and polynomials of the Cephes library's
// single-precision functions, about 2 ulp. NaN goes through, infinities give their limits.
#pragma once

#include "kernels/cpu/simd/vec.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace math {

/// (exp(r) - 1 - r) / r^2 for |r| <= 0.35.
DPI_INLINE Vec exp_rest(Vec r) {
  Vec p = Vec::all(1.9875691500e-4f);
  p = fma(p, r, Vec::all(1.3981999507e-3f));
  p = fma(p, r, Vec::all(8.3334519073e-3f));
  p = fma(p, r, Vec::all(4.1665795894e-2f));
  p = fma(p, r, Vec::all(1.6666665459e-1f));
  return fma(p, r, Vec::all(5.0000001201e-1f));
}

}  // namespace math

/// exp(x) = 2^n exp(r), |r| <= ln(2)/2. The constant comes first in min and max so that NaN survives them.
DPI_INLINE Vec exp(Vec x) {
  x = max(Vec::all(-104.0f), min(Vec::all(89.0f), x));
  const Vec n = round(x * Vec::all(1.44269504088896341f));
  Vec r = fma(n, Vec::all(-0.693359375f), x);
  r = fma(n, Vec::all(2.12194440e-4f), r);
  const Vec y = fma(math::exp_rest(r) * r, r, r) + Vec::all(1.0f);
  return scale_pow2(y, n);
}

/// exp(x) - 1 without cancellation near 0.
DPI_INLINE Vec expm1(Vec x) {
  const Vec small = fma(math::exp_rest(x) * x, x, x);
  return select(abs(x) < Vec::all(0.34f), small, exp(x) - Vec::all(1.0f));
}

DPI_INLINE Vec sigmoid(Vec x) { return Vec::all(1.0f) / (Vec::all(1.0f) + exp(Vec::zero() - x)); }

DPI_INLINE Vec tanh(Vec x) {
  const Vec z = x * x;
  Vec p = Vec::all(-5.70498872745e-3f);
  p = fma(p, z, Vec::all(2.06390887954e-2f));
  p = fma(p, z, Vec::all(-5.37397155531e-2f));
  p = fma(p, z, Vec::all(1.33314422036e-1f));
  p = fma(p, z, Vec::all(-3.33332819422e-1f));
  const Vec small = fma(p * z, x, x);
  const Vec m = abs(x);
  if (all(m < Vec::all(0.625f))) return small;  // the same bits, without the exponential
  const Vec large = Vec::all(1.0f) - Vec::all(2.0f) / (exp(m + m) + Vec::all(1.0f));
  return select(m < Vec::all(0.625f), small, select(x < Vec::zero(), Vec::zero() - large, large));
}

}  // namespace dpi::kernels::cpu::DPI_ISA
