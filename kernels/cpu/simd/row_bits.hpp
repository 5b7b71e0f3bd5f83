// Rows of i4, i2 and fp8 to vectors. A row has 4 bytes behind its elements, so loads of up to 4 bytes from
// any byte with an element stay inside it. Included by pool.hpp only.
#pragma once

#include "kernels/cpu/simd/vec.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

/// Rows need not be aligned.
template <class T>
DPI_INLINE T bytes_at(const void* p) {
  T v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

DPI_INLINE float half_at(const void* p) {
#if defined(DPI_ISA_AVX512) || defined(DPI_ISA_AVX2)
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bytes_at<uint16_t>(p))));
#elif defined(DPI_ISA_NEON)
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bytes_at<uint16_t>(p)))), 0);
#else
  return float_of_half(bytes_at<uint16_t>(p));
#endif
}

/// The first n < W lanes, 0 in the others.
DPI_INLINE Vec keep_first(Vec v, int64_t n) {
#if defined(DPI_ISA_AVX512)
  return {_mm512_maskz_mov_ps(first_lanes(n), v.v)};
#elif defined(DPI_ISA_AVX2)
  return {_mm256_and_ps(v.v, _mm256_castsi256_ps(first_lanes(n)))};
#elif defined(DPI_ISA_NEON)
  const int32x4_t lanes = {0, 1, 2, 3};
  const uint32x4_t first = vcltq_s32(lanes, vdupq_n_s32(static_cast<int32_t>(n)));
  return {vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v.v), first))};
#else
  return n > 0 ? v : Vec::zero();
#endif
}

/// W numbers of kBits bits that begin with a byte, of which n are the row's.
template <int kBits>
DPI_INLINE Vec numbers_at(const uint8_t* p, [[maybe_unused]] int64_t n) {
#if defined(DPI_ISA_AVX512)
  const __m512i mask = _mm512_set1_epi32((1 << kBits) - 1);
  if constexpr (kBits == 4) {
    // The lower 8 numbers are in one word, the upper 8 in the next.
    const __m128i words =
        n > 6 ? _mm_cvtsi64_si128(bytes_at<int64_t>(p)) : _mm_cvtsi32_si128(bytes_at<int32_t>(p));
    const __m512i which = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m512i shift = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    const __m512i all = _mm512_permutexvar_epi32(which, _mm512_castsi128_si512(words));
    return {_mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srlv_epi32(all, shift), mask))};
  } else {
    const __m512i all = _mm512_set1_epi32(bytes_at<int32_t>(p));
    const __m512i shift = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return {_mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srlv_epi32(all, shift), mask))};
  }
#elif defined(DPI_ISA_AVX2)
  const int32_t word = kBits == 4 ? bytes_at<int32_t>(p) : bytes_at<uint16_t>(p);
  const __m256i steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i all =
      _mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_mullo_epi32(steps, _mm256_set1_epi32(kBits)));
  return {_mm256_cvtepi32_ps(_mm256_and_si256(all, _mm256_set1_epi32((1 << kBits) - 1)))};
#elif defined(DPI_ISA_NEON)
  const uint32_t word = kBits == 4 ? bytes_at<uint16_t>(p) : *p;
  const int32x4_t steps = {0, -kBits, -2 * kBits, -3 * kBits};
  const uint32x4_t all = vshlq_u32(vdupq_n_u32(word), steps);
  return {vcvtq_f32_u32(vandq_u32(all, vdupq_n_u32((1u << kBits) - 1u)))};
#else
  return {static_cast<float>(*p & ((1 << kBits) - 1))};
#endif
}

/// Numbers [i, i + n) of a row, n <= W. Lanes from n on are anything.
template <int kBits>
DPI_INLINE Vec load_bits(const uint8_t* row, int64_t i, int64_t n) {
  const uint8_t* const p = row + i * kBits / 8;
  const int64_t shift = i * kBits % 8;
  if (Vec::W > 1 && shift == 0) return numbers_at<kBits>(p, n);
  float part[Vec::W] = {};
  for (int64_t k = 0; k < n; ++k) {
    const int64_t bit = shift + k * kBits;
    part[k] = static_cast<float>((p[bit / 8] >> (bit % 8)) & ((1 << kBits) - 1));
  }
  return Vec::load(part);
}

/// n <= W numbers of e4m3fn. An f16 with the same bits, its exponent's place included, is the number / 256;
/// NaN is no such f16.
DPI_INLINE Vec load_fp8(const uint8_t* p, int64_t n) {
#if defined(DPI_ISA_AVX512)
  const __m128i b = n >= Vec::W ? _mm_loadu_si128(reinterpret_cast<const __m128i*>(p))
                                : _mm_maskz_loadu_epi8(first_lanes(n), p);
  const __m256i wide = _mm256_cvtepu8_epi16(b);
  const __m256i size = _mm256_and_si256(wide, _mm256_set1_epi16(0x7f));
  const __m256i nan = _mm256_cmpeq_epi16(size, _mm256_set1_epi16(0x7f));
  const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(wide, size), 8);
  const __m256i half = _mm256_or_si256(_mm256_or_si256(_mm256_slli_epi16(size, 7), sign), nan);
  return {_mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0f))};
#elif defined(DPI_ISA_AVX2)
  uint64_t eight = 0;
  if (n >= Vec::W) {
    eight = bytes_at<uint64_t>(p);
  } else {
    for (int64_t k = 0; k < n; ++k) eight |= static_cast<uint64_t>(p[k]) << (8 * k);
  }
  const __m128i wide = _mm_cvtepu8_epi16(_mm_cvtsi64_si128(static_cast<int64_t>(eight)));
  const __m128i size = _mm_and_si128(wide, _mm_set1_epi16(0x7f));
  const __m128i nan = _mm_cmpeq_epi16(size, _mm_set1_epi16(0x7f));
  const __m128i sign = _mm_slli_epi16(_mm_xor_si128(wide, size), 8);
  const __m128i half = _mm_or_si128(_mm_or_si128(_mm_slli_epi16(size, 7), sign), nan);
  return {_mm256_mul_ps(_mm256_cvtph_ps(half), _mm256_set1_ps(256.0f))};
#elif defined(DPI_ISA_NEON)
  uint8_t four[8] = {};
  for (int64_t k = 0; k < n; ++k) four[k] = p[k];
  const uint16x4_t wide = vget_low_u16(vmovl_u8(vld1_u8(four)));
  const uint16x4_t size = vand_u16(wide, vdup_n_u16(0x7f));
  const uint16x4_t nan = vceq_u16(size, vdup_n_u16(0x7f));
  const uint16x4_t sign = vshl_n_u16(veor_u16(wide, size), 8);
  const uint16x4_t half = vorr_u16(vorr_u16(vshl_n_u16(size, 7), sign), nan);
  return {vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(half)), 256.0f)};
#else
  const uint32_t size = *p & 0x7fu, sign = static_cast<uint32_t>(*p & 0x80u) << 8;
  return {n > 0 ? float_of_half(static_cast<uint16_t>(size == 0x7f ? 0x7fff : sign | size << 7)) * 256.0f
                : 0.0f};
#endif
}

}  // namespace dpi::kernels::cpu::DPI_ISA
