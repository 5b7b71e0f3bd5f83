#include "kernels/cpu/spans.hpp"

#include "kernels/cpu/lane_math.hpp"
#include "kernels/cpu/simd/gelu.hpp"
#include "kernels/cpu/simd/math.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

template <class F>
DPI_INLINE void map(Span x, float* dst, int64_t n, F&& f) {
  for_vectors(n, [&](int64_t i, int64_t k) { store_n(dst + i, f(load_span(x, i, k)), k); });
}

template <class F>
DPI_INLINE void map_channels(Span x, float* dst, int64_t n, F&& f) {
  for_vectors(n, [&](int64_t i, int64_t k) { store_n(dst + i, f(load_span(x, i, k), i, k), k); });
}

void map_lanes(const UnaryAttrs& attrs, Span x, float* dst, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] = lane_unary(attrs.kind, attrs.a, x.data[i * x.step]);
}

void affine_span(const SpanUnary& f, Span x, float* dst, int64_t n) {
  if (f.p[0].data == nullptr) {
    const Vec scale = Vec::all(f.attrs.a), shift = Vec::all(f.attrs.b);
    map(x, dst, n, [&](Vec v) { return fma(scale, v, shift); });
    return;
  }
  map_channels(x, dst, n, [&](Vec v, int64_t i, int64_t k) {
    const Vec shift = f.p[1].data == nullptr ? Vec::zero() : load_span(f.p[1], i, k);
    return fma(load_span(f.p[0], i, k), v, shift);
  });
}

void dice_span(const SpanUnary& f, Span x, float* dst, int64_t n) {
  const Vec one = Vec::all(1.0f);
  map_channels(x, dst, n, [&](Vec v, int64_t i, int64_t k) {
    const Vec p = sigmoid(fma(load_span(f.p[1], i, k), v, load_span(f.p[2], i, k)));
    return fma(p, v, load_span(f.p[0], i, k) * (one - p) * v);
  });
}

DPI_INLINE Vec relu(Vec v) { return max(Vec::zero(), v); }

DPI_INLINE Vec elu(Vec v, Vec alpha) {
  return select(v < Vec::zero(), alpha * expm1(min(Vec::zero(), v)), v);
}

/// A NaN is unlike 0 and stays.
DPI_INLINE Vec sign(Vec v) {
  const Vec zero = Vec::zero();
  const Vec not_above = select(v < zero, Vec::all(-1.0f), select(v == zero, zero, v));
  return select(v > zero, Vec::all(1.0f), not_above);
}

DPI_INLINE Vec gelu_tanh(Vec v) {
  const Vec inner = Vec::all(0.7978845608028654f) * fma(Vec::all(0.044715f) * v, v * v, v);
  return Vec::all(0.5f) * v * (Vec::all(1.0f) + tanh(inner));
}

}  // namespace

void unary_span(const SpanUnary& f, Span x, float* dst, int64_t n) {
  const Vec zero = Vec::zero();
  const Vec a = Vec::all(f.attrs.a);
  const Vec b = Vec::all(f.attrs.b);
  switch (f.attrs.kind) {
    case UnaryKind::kIdentity:
      return map(x, dst, n, [](Vec v) { return v; });
    case UnaryKind::kRelu:
      return map(x, dst, n, [](Vec v) { return relu(v); });
    case UnaryKind::kSigmoid:
      return map(x, dst, n, [](Vec v) { return sigmoid(v); });
    case UnaryKind::kTanh:
      return map(x, dst, n, [](Vec v) { return tanh(v); });
    case UnaryKind::kExp:
      return map(x, dst, n, [](Vec v) { return exp(v); });
    case UnaryKind::kAbs:
      return map(x, dst, n, [](Vec v) { return abs(v); });
    case UnaryKind::kSqrt:
      return map(x, dst, n, [](Vec v) { return sqrt(v); });
    case UnaryKind::kRsqrt:
      return map(x, dst, n, [](Vec v) { return Vec::all(1.0f) / sqrt(v); });
    case UnaryKind::kSilu:
      return map(x, dst, n, [](Vec v) { return v * sigmoid(v); });
    case UnaryKind::kSelu:
      return map(x, dst, n,
                 [](Vec v) { return Vec::all(1.0507009873554805f) * elu(v, Vec::all(1.6732632423543772f)); });
    case UnaryKind::kGeluErf:
      return map(x, dst, n, [](Vec v) { return gelu_erf(v); });
    case UnaryKind::kGeluTanh:
      return map(x, dst, n, [](Vec v) { return gelu_tanh(v); });
    case UnaryKind::kLeaky:
      return map(x, dst, n, [&](Vec v) { return select(v < zero, a * v, v); });
    case UnaryKind::kElu:
      return map(x, dst, n, [&](Vec v) { return elu(v, a); });
    case UnaryKind::kClamp:
      return map(x, dst, n, [&](Vec v) { return min(b, max(a, v)); });
    case UnaryKind::kAffine:
      return affine_span(f, x, dst, n);
    case UnaryKind::kPrelu:
      return map_channels(x, dst, n, [&](Vec v, int64_t i, int64_t k) {
        return select(v < zero, load_span(f.p[0], i, k) * v, v);
      });
    case UnaryKind::kDice:
      return dice_span(f, x, dst, n);
    case UnaryKind::kLog:
    case UnaryKind::kSoftplus:
    case UnaryKind::kPow:
    case UnaryKind::kSin:
    case UnaryKind::kCos:
      return map_lanes(f.attrs, x, dst, n);
    case UnaryKind::kSign:
      return map(x, dst, n, [](Vec v) { return sign(v); });
  }
}

namespace {

template <class F>
DPI_INLINE void zip(Span x, Span y, float* dst, int64_t n, F&& f) {
  for_vectors(n,
              [&](int64_t i, int64_t k) { store_n(dst + i, f(load_span(x, i, k), load_span(y, i, k)), k); });
}

// Comparisons with a NaN are false; equality is asked for on its own, as Vec has no `<=`.
DPI_INLINE Vec one_or_zero(Mask m) { return select(m, Vec::all(1.0f), Vec::zero()); }
DPI_INLINE Vec at_most(Vec p, Vec q) { return select(p == q, Vec::all(1.0f), one_or_zero(p < q)); }

}  // namespace

void binary_span(BinaryKind kind, Span x, Span y, float* dst, int64_t n) {
  switch (kind) {
    case BinaryKind::kAdd:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return p + q; });
    case BinaryKind::kSub:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return p - q; });
    case BinaryKind::kMul:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return p * q; });
    case BinaryKind::kDiv:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return p / q; });
    case BinaryKind::kMax:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return select(is_nan(p), p, max(p, q)); });
    case BinaryKind::kMin:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return select(is_nan(p), p, min(p, q)); });
    case BinaryKind::kLt:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return one_or_zero(p < q); });
    case BinaryKind::kLe:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return at_most(p, q); });
    case BinaryKind::kGt:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return one_or_zero(p > q); });
    case BinaryKind::kGe:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return at_most(q, p); });
    case BinaryKind::kEq:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return one_or_zero(p == q); });
    case BinaryKind::kNe:
      return zip(x, y, dst, n, [](Vec p, Vec q) { return select(p == q, Vec::zero(), Vec::all(1.0f)); });
    case BinaryKind::kAtan2:
      for (int64_t i = 0; i < n; ++i) dst[i] = lane_binary(kind, x.data[i * x.step], y.data[i * y.step]);
      return;
  }
}

void where_span(Span cond, Span yes, Span no, float* dst, int64_t n) {
  for_vectors(n, [&](int64_t i, int64_t k) {
    const Mask is_zero = load_span(cond, i, k) == Vec::zero();
    store_n(dst + i, select(is_zero, load_span(no, i, k), load_span(yes, i, k)), k);
  });
}

}  // namespace dpi::kernels::cpu::DPI_ISA
