// 8 floats in one AVX register (AVX2, FMA, F16C). Included by vec.hpp only.
#pragma once

#include <immintrin.h>

namespace dpi::kernels::cpu::DPI_ISA {

struct Mask {
  __m256 m;
  DPI_INLINE friend Mask operator&(Mask a, Mask b) { return {_mm256_and_ps(a.m, b.m)}; }
};

DPI_INLINE __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

struct Vec {
  static constexpr int W = 8;
  __m256 v;

  static DPI_INLINE Vec zero() { return {_mm256_setzero_ps()}; }
  static DPI_INLINE Vec all(float x) { return {_mm256_set1_ps(x)}; }
  static DPI_INLINE Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static DPI_INLINE Vec load_part(const float* p, int64_t n) {
    return {_mm256_maskload_ps(p, first_lanes(n))};
  }
  DPI_INLINE void store(float* p) const { _mm256_storeu_ps(p, v); }
  DPI_INLINE void store_part(float* p, int64_t n) const { _mm256_maskstore_ps(p, first_lanes(n), v); }

  // There are no masked loads of narrow types: parts go through a small copy.
  static DPI_INLINE __m128i load_u16(const void* p, int64_t n) {
    if (n >= W) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    alignas(16) uint16_t part[W] = {};
    std::memcpy(part, p, static_cast<size_t>(n) * sizeof(uint16_t));
    return _mm_load_si128(reinterpret_cast<const __m128i*>(part));
  }
  static DPI_INLINE Vec load_f16(const void* p, int64_t n) { return {_mm256_cvtph_ps(load_u16(p, n))}; }
  static DPI_INLINE Vec load_bf16(const void* p, int64_t n) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_u16(p, n)), 16))};
  }
  static DPI_INLINE __m256i load_words(const uint32_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static DPI_INLINE Vec load_lower_bf16(const uint32_t* p) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(load_words(p), 16))};
  }
  static DPI_INLINE Vec load_upper_bf16(const uint32_t* p) {
    return {_mm256_castsi256_ps(_mm256_and_si256(load_words(p), _mm256_set1_epi32(-65536)))};
  }
  static DPI_INLINE Vec load_i8(const int8_t* p, int64_t n) {
    alignas(16) int8_t part[16] = {};
    if (n < W) {
      for (int64_t i = 0; i < n; ++i) part[i] = p[i];
    }
    const int8_t* src = n >= W ? p : part;
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(src))))};
  }

  DPI_INLINE float sum() const {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  DPI_INLINE float largest() const {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }
  DPI_INLINE float largest_part(int64_t n) const {
    const __m256 low = _mm256_set1_ps(-__builtin_inff());
    return Vec{_mm256_blendv_ps(low, v, _mm256_castsi256_ps(first_lanes(n)))}.largest();
  }

  DPI_INLINE friend Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
  DPI_INLINE friend Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
  DPI_INLINE friend Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
  DPI_INLINE friend Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
  DPI_INLINE friend Mask operator<(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
  DPI_INLINE friend Mask operator>(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
  DPI_INLINE friend Mask operator==(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
};

DPI_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
DPI_INLINE Vec select(Mask m, Vec yes, Vec no) { return {_mm256_blendv_ps(no.v, yes.v, m.m)}; }
DPI_INLINE Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
DPI_INLINE Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
DPI_INLINE Vec abs(Vec a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
DPI_INLINE Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.v)}; }
DPI_INLINE Vec round(Vec a) { return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
DPI_INLINE bool all(Mask m) { return _mm256_movemask_ps(m.m) == 0xff; }
DPI_INLINE Mask is_nan(Vec a) { return {_mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q)}; }

/// 2^n by its exponent bits, in two factors: one alone would leave the range of float before the product
/// does.
DPI_INLINE Vec scale_pow2(Vec x, Vec n) {
  const __m256i e = _mm256_cvtps_epi32(n.v);
  const __m256i half = _mm256_srai_epi32(e, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i f1 = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i f2 = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(e, half), bias), 23);
  return {_mm256_mul_ps(_mm256_mul_ps(x.v, _mm256_castsi256_ps(f1)), _mm256_castsi256_ps(f2))};
}

}  // namespace dpi::kernels::cpu::DPI_ISA
