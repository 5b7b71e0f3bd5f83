// One float: the Vec struct in plain C++, for any processor, and the definition of what the others do.
// Included by vec.hpp only.
#pragma once

namespace dpi::kernels::cpu::DPI_ISA {

struct Mask {
  bool m;
  DPI_INLINE friend Mask operator&(Mask a, Mask b) { return {a.m && b.m}; }
};

DPI_INLINE float float_of_bits(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

/// IEEE half to float: exponent re-biased, subnormals by their value, infinities and NaN kept.
DPI_INLINE float float_of_half(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 31u;
  const uint32_t fraction = h & 1023u;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return float_of_bits(sign | ((exponent + 112u) << 23) | (fraction << 13));
  const float tiny = static_cast<float>(fraction) * 5.9604644775390625e-8f;  // fraction 2^-24, exact
  return sign != 0 ? -tiny : tiny;
}

/// Table rows need not be aligned, so every load goes through memcpy.
template <class T>
DPI_INLINE T load_unaligned(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

struct Vec {
  static constexpr int W = 1;
  float v;

  static DPI_INLINE Vec zero() { return {0}; }
  static DPI_INLINE Vec all(float x) { return {x}; }
  static DPI_INLINE Vec load(const float* p) { return {load_unaligned<float>(p)}; }
  static DPI_INLINE Vec load_part(const float*, int64_t) { return {0}; }
  DPI_INLINE void store(float* p) const { *p = v; }
  DPI_INLINE void store_part(float*, int64_t) const {}

  static DPI_INLINE Vec load_f16(const void* p, int64_t) {
    return {float_of_half(load_unaligned<uint16_t>(p))};
  }
  static DPI_INLINE Vec load_bf16(const void* p, int64_t) {
    return {float_of_bits(static_cast<uint32_t>(load_unaligned<uint16_t>(p)) << 16)};
  }
  static DPI_INLINE Vec load_lower_bf16(const uint32_t* p) { return {float_of_bits(*p << 16)}; }
  static DPI_INLINE Vec load_upper_bf16(const uint32_t* p) { return {float_of_bits(*p & 0xffff0000u)}; }
  static DPI_INLINE Vec load_i8(const int8_t* p, int64_t) { return {static_cast<float>(*p)}; }

  DPI_INLINE float sum() const { return v; }
  DPI_INLINE float largest() const { return v; }
  DPI_INLINE float largest_part(int64_t) const { return v; }

  DPI_INLINE friend Vec operator+(Vec a, Vec b) { return {a.v + b.v}; }
  DPI_INLINE friend Vec operator-(Vec a, Vec b) { return {a.v - b.v}; }
  DPI_INLINE friend Vec operator*(Vec a, Vec b) { return {a.v * b.v}; }
  DPI_INLINE friend Vec operator/(Vec a, Vec b) { return {a.v / b.v}; }
  DPI_INLINE friend Mask operator<(Vec a, Vec b) { return {a.v < b.v}; }
  DPI_INLINE friend Mask operator>(Vec a, Vec b) { return {a.v > b.v}; }
  DPI_INLINE friend Mask operator==(Vec a, Vec b) { return {a.v == b.v}; }
};

DPI_INLINE Vec fma(Vec a, Vec b, Vec c) { return {a.v * b.v + c.v}; }
DPI_INLINE Vec select(Mask m, Vec yes, Vec no) { return m.m ? yes : no; }
DPI_INLINE Vec max(Vec a, Vec b) { return {a.v > b.v ? a.v : b.v}; }
DPI_INLINE Vec min(Vec a, Vec b) { return {a.v < b.v ? a.v : b.v}; }
DPI_INLINE Vec abs(Vec a) { return {__builtin_fabsf(a.v)}; }
DPI_INLINE Vec sqrt(Vec a) { return {__builtin_sqrtf(a.v)}; }
/// Nearest even, for |a| < 2^22.
DPI_INLINE Vec round(Vec a) { return {(a.v + 12582912.0f) - 12582912.0f}; }
DPI_INLINE bool all(Mask m) { return m.m; }
DPI_INLINE Mask is_nan(Vec a) { return {a.v != a.v}; }

DPI_INLINE Vec scale_pow2(Vec x, Vec n) {
  const int32_t e = n.v >= -300 && n.v <= 300 ? static_cast<int32_t>(n.v) : 0;  // NaN: x carries it
  const int32_t half = e >> 1;
  const float f1 = float_of_bits(static_cast<uint32_t>(half + 127) << 23);
  const float f2 = float_of_bits(static_cast<uint32_t>(e - half + 127) << 23);
  return {x.v * f1 * f2};
}

}  // namespace dpi::kernels::cpu::DPI_ISA
