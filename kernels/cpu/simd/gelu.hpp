// GELU by the error function, x Phi(x) with the normal distribution Phi, over Vec: at most 7 ulp.
#pragma once

#include "kernels/cpu/simd/math.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace math {

/// Phi(-a) / exp(-a^2 / 2) for 0 <= a <= 14.5: a quotient fitted to
/// erfcx(a / sqrt(2)) / 2, at most 1.03e-8 of it away. No term is negative, so nothing cancels.
DPI_INLINE Vec scaled_tail(Vec a) {
  Vec p = Vec::all(0.00408581644f);
  p = fma(p, a, Vec::all(0.0404434875f));
  p = fma(p, a, Vec::all(0.182695448f));
  p = fma(p, a, Vec::all(0.437602609f));
  p = fma(p, a, Vec::all(0.5f));
  Vec q = Vec::all(0.010241501f);
  q = fma(q, a, Vec::all(0.101383358f));
  q = fma(q, a, Vec::all(0.468038887f));
  q = fma(q, a, Vec::all(1.20031965f));
  q = fma(q, a, Vec::all(1.6730901f));
  return p / fma(q, a, Vec::all(1.0f));
}

/// a Phi(-a) for 0 <= a <= 14.5; 0 at the end. a^2 / 2 needs more bits than a float has: a is `high`, whose
/// square is exact, and `low`.
DPI_INLINE Vec gelu_loss(Vec a) {
  const Vec split = Vec::all(4097.0f) * a;
  const Vec high = split - (split - a);
  const Vec low = a - high;
  const Vec n = round(a * a * Vec::all(-0.5f * 1.44269504088896341f));
  Vec r = fma(n, Vec::all(-0.693359375f), Vec::all(-0.5f) * high * high);
  r = fma(n, Vec::all(2.12194440e-4f), r);
  r = fma(Vec::all(-0.5f) * low, a + high, r);
  const Vec y = fma(exp_rest(r) * r, r, r) + Vec::all(1.0f);
  return scale_pow2(y * scaled_tail(a) * a, n);
}

}  // namespace math

/// To 7 ulp for every x, also where the result is small. -infinity gives NaN, as a product with Phi = 0 does
/// (and PyTorch): hence 0 x.
DPI_INLINE Vec gelu_erf(Vec x) {
  const Vec loss = math::gelu_loss(min(Vec::all(14.5f), abs(x)));
  const Vec below = fma(Vec::zero(), x, Vec::zero() - loss);
  return select(x < Vec::zero(), below, x - loss);
}

}  // namespace dpi::kernels::cpu::DPI_ISA
