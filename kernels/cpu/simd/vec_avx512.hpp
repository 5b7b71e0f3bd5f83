// 16 floats in one AVX-512 register (F, BW, DQ, VL). Included by vec.hpp only.
#pragma once

#include <immintrin.h>

namespace dpi::kernels::cpu::DPI_ISA {

/// Lanes of a comparison.
struct Mask {
  __mmask16 m;
  DPI_INLINE friend Mask operator&(Mask a, Mask b) { return {static_cast<__mmask16>(a.m & b.m)}; }
};

DPI_INLINE __mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }

/// load_part and store_part touch the first n < W floats only; the other lanes are 0.
struct Vec {
  static constexpr int W = 16;
  __m512 v;

  static DPI_INLINE Vec zero() { return {_mm512_setzero_ps()}; }
  static DPI_INLINE Vec all(float x) { return {_mm512_set1_ps(x)}; }
  static DPI_INLINE Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static DPI_INLINE Vec load_part(const float* p, int64_t n) {
    return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
  }
  DPI_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
  DPI_INLINE void store_part(float* p, int64_t n) const { _mm512_mask_storeu_ps(p, first_lanes(n), v); }

  // Table rows of other types; n <= W elements.
  static DPI_INLINE Vec load_f16(const void* p, int64_t n) {
    const __m256i h = n >= W ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))
                             : _mm256_maskz_loadu_epi16(first_lanes(n), p);
    return {_mm512_cvtph_ps(h)};
  }
  static DPI_INLINE Vec load_bf16(const void* p, int64_t n) {
    const __m256i h = n >= W ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))
                             : _mm256_maskz_loadu_epi16(first_lanes(n), p);
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16))};
  }
  // The lower and the upper half of each of W words.
  static DPI_INLINE Vec load_lower_bf16(const uint32_t* p) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16))};
  }
  static DPI_INLINE Vec load_upper_bf16(const uint32_t* p) {
    return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi32(-65536)))};
  }
  static DPI_INLINE Vec load_i8(const int8_t* p, int64_t n) {
    const __m128i b = n >= W ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))
                             : _mm_maskz_loadu_epi8(first_lanes(n), p);
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b))};
  }

  DPI_INLINE float sum() const { return _mm512_reduce_add_ps(v); }
  DPI_INLINE float largest() const { return _mm512_reduce_max_ps(v); }
  /// Largest of the first n lanes.
  DPI_INLINE float largest_part(int64_t n) const { return _mm512_mask_reduce_max_ps(first_lanes(n), v); }

  DPI_INLINE friend Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
  DPI_INLINE friend Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
  DPI_INLINE friend Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
  DPI_INLINE friend Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
  DPI_INLINE friend Mask operator<(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
  DPI_INLINE friend Mask operator>(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
  DPI_INLINE friend Mask operator==(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
};

/// a b + c, rounded once (scalar: twice).
DPI_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
DPI_INLINE Vec select(Mask m, Vec yes, Vec no) { return {_mm512_mask_blend_ps(m.m, no.v, yes.v)}; }
/// a where a > b, else b: NaN in a gives b.
DPI_INLINE Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
DPI_INLINE Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
DPI_INLINE Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
DPI_INLINE Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
DPI_INLINE Vec round(Vec a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
/// x 2^n for integral n in [-300, 300]; overflows and underflows as IEEE does.
DPI_INLINE Vec scale_pow2(Vec x, Vec n) { return {_mm512_scalef_ps(x.v, n.v)}; }
DPI_INLINE bool all(Mask m) { return m.m == 0xffff; }
DPI_INLINE Mask is_nan(Vec a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }

}  // namespace dpi::kernels::cpu::DPI_ISA
