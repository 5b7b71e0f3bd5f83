// Rows of x made narrow, as products in bf16 and in int8 read them, and sums in int8 made float32. scalar
// and, for AMX, tile_model say in plain code what the others do.
#pragma once

#include "kernels/cpu/simd/vec.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

#if defined(DPI_ISA_AVX512_BF16) || defined(DPI_ISA_AMX)
/// n <= W elements, to nearest; what is finite stays finite, as narrow.hpp has it, and what is below 2^-126
/// becomes 0. dst: n of them.
DPI_INLINE void round_bf16(const float* x, int64_t n, uint16_t* dst) {
  const Vec v = load_n(x, n), most = Vec::all(0x1.fep127f);
  const Vec cut = min(most, max(Vec::zero() - most, v));
  const Vec safe = select(abs(v) < Vec::all(__builtin_inff()), cut, v);
  const __m256i bits = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(safe.v));
  const __mmask16 lanes = n >= Vec::W ? static_cast<__mmask16>(0xffff) : first_lanes(n);
  _mm256_mask_storeu_epi16(dst, lanes, bits);
}
#elif defined(DPI_ISA_TILE_MODEL)
DPI_INLINE void round_bf16(const float* x, int64_t, uint16_t* dst) {
  uint32_t bits = 0;
  std::memcpy(&bits, x, sizeof bits);
  const uint32_t sign = bits & 0x80000000u, size = bits & 0x7fffffffu;
  uint32_t rounded = size + 0x7fffu + ((size >> 16) & 1u);
  if (size > 0x7f800000u) rounded = 0x7fc00000u;
  if (size == 0x7f800000u) rounded = size;
  if (size < 0x7f800000u && rounded >= 0x7f800000u) rounded = 0x7f7f0000u;
  if (size < 0x00800000u) rounded = 0;
  *dst = static_cast<uint16_t>((sign | rounded) >> 16);
}
#endif

// A row in int8, in words: four elements are kRowWords of them. kNothing is a word of zeros.
// store_bytes: n <= W elements as whole numbers, of which dst is the first one's place.
// exact_sum: a sum's 32 bits as a float; `offsets` are what its columns have too much.
#if defined(DPI_ISA_TILE_MODEL) || defined(DPI_ISA_AVX512_VNNI) || defined(DPI_ISA_AMX)
// Their instruction multiplies bytes without a sign by such with one: 128 more than the value.
constexpr int kRowWords = 1;
constexpr uint32_t kNothing = 0x80808080u;
#elif defined(DPI_ISA_AVX512) || defined(DPI_ISA_AVX512_BF16) || defined(DPI_ISA_AVX2)
// 16 bits each, in the order 0, 2, 1, 3, in which weights are widened.
constexpr int kRowWords = 2;
constexpr uint32_t kNothing = 0;
#else
constexpr int kRowWords = 1;
constexpr uint32_t kNothing = 0;
#endif

#if defined(DPI_ISA_TILE_MODEL)
DPI_INLINE void store_bytes(Vec v, int64_t, uint8_t* dst) {
  *dst = static_cast<uint8_t>(static_cast<int32_t>(__builtin_nearbyintf(v.v)) + 128);
}

DPI_INLINE Vec exact_sum(Vec sum, const uint32_t* offsets) {
  return {static_cast<float>(static_cast<int32_t>(load_unaligned<uint32_t>(&sum.v) - *offsets))};
}
#elif defined(DPI_ISA_AVX512_VNNI) || defined(DPI_ISA_AMX)
DPI_INLINE void store_bytes(Vec v, int64_t n, uint8_t* dst) {
  const __m512i q = _mm512_cvt_roundps_epi32(v.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m128i u = _mm512_cvtepi32_epi8(_mm512_add_epi32(q, _mm512_set1_epi32(128)));
  const __mmask16 lanes = n >= Vec::W ? static_cast<__mmask16>(0xffff) : first_lanes(n);
  _mm_mask_storeu_epi8(dst, lanes, u);
}

DPI_INLINE Vec exact_sum(Vec sum, const uint32_t* offsets) {
  return {_mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_castps_si512(sum.v), _mm512_loadu_si512(offsets)))};
}
#elif defined(DPI_ISA_AVX512) || defined(DPI_ISA_AVX512_BF16)
DPI_INLINE void store_bytes(Vec v, int64_t n, uint8_t* dst) {
  const __m512i q = _mm512_cvt_roundps_epi32(v.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256i w = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(_mm512_cvtepi32_epi16(q), 0xd8), 0xd8);
  const __mmask16 lanes = n >= Vec::W ? static_cast<__mmask16>(0xffff) : first_lanes((n + 3) / 4 * 4);
  _mm256_mask_storeu_epi16(dst, lanes, w);
}

DPI_INLINE Vec exact_sum(Vec sum, const uint32_t*) {
  return {_mm512_cvtepi32_ps(_mm512_castps_si512(sum.v))};
}
#elif defined(DPI_ISA_AVX2)
DPI_INLINE void store_bytes(Vec v, int64_t n, uint8_t* dst) {
  const __m256i q = _mm256_cvtps_epi32(v.v), both = _mm256_packs_epi32(q, q);
  const __m128i w = _mm256_castsi256_si128(_mm256_permute4x64_epi64(both, 0x08));
  const __m128i swapped = _mm_shufflehi_epi16(_mm_shufflelo_epi16(w, 0xd8), 0xd8);
  if (n > 4) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst), swapped);
  } else {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(dst), swapped);
  }
}

DPI_INLINE Vec exact_sum(Vec sum, const uint32_t*) {
  return {_mm256_cvtepi32_ps(_mm256_castps_si256(sum.v))};
}
#elif defined(DPI_ISA_NEON) || defined(DPI_ISA_NEON_DOT) || defined(DPI_ISA_NEON_MMLA)
DPI_INLINE void store_bytes(Vec v, int64_t, uint8_t* dst) {
  const int16x4_t q = vmovn_s32(vcvtnq_s32_f32(v.v));
  const uint32_t word = vget_lane_u32(vreinterpret_u32_s8(vmovn_s16(vcombine_s16(q, q))), 0);
  __builtin_memcpy(dst, &word, sizeof word);
}

DPI_INLINE Vec exact_sum(Vec sum, const uint32_t*) { return {vcvtq_f32_s32(vreinterpretq_s32_f32(sum.v))}; }
#else
DPI_INLINE void store_bytes(Vec v, int64_t, uint8_t* dst) {
  *dst = static_cast<uint8_t>(static_cast<int32_t>(round(v).v));
}

DPI_INLINE Vec exact_sum(Vec sum, const uint32_t*) {
  return {static_cast<float>(load_unaligned<int32_t>(&sum.v))};
}
#endif

/// A row's scale: its largest magnitude becomes 127. NaN where anything is not finite, 0 where all is next to
/// nothing.
DPI_INLINE float row_scale(const float* x, int64_t k) {
  Vec most = Vec::zero(), rest = Vec::zero();
  for_vectors(k, [&](int64_t i, int64_t n) {
    const Vec v = load_n(x + i, n);
    most = max(abs(v), most);
    rest = fma(v, Vec::zero(), rest);  // 0, or NaN
  });
  const float none = rest.sum(), largest = most.largest();
  return none != 0 ? none : largest < 1e-30f ? 0.0f : largest / 127.0f;
}

/// Rounds a row to whole numbers in `words` words, and writes its scale behind them. words: a multiple of
/// kRowWords. A number that is not finite leaves all to the scale.
DPI_INLINE void round_int8_row(const float* x, int64_t k, int64_t words, uint32_t* dst) {
  const float scale = row_scale(x, k);
  const Vec factor = Vec::all(scale > 0 ? 1.0f / scale : 0.0f);
  for (int64_t i = k / 4 * kRowWords; i < words; ++i) dst[i] = kNothing;
  for_vectors(k, [&](int64_t i, int64_t n) {
    const Vec v = scale > 0 ? load_n(x + i, n) * factor : Vec::zero();
    store_bytes(v, n, reinterpret_cast<uint8_t*>(dst) + i * kRowWords);
  });
  __builtin_memcpy(dst + words, &scale, sizeof scale);
}

/// A sum of row and column with their scales: of the columns of `scales`, of a row's at `row`.
DPI_INLINE Vec scaled_sum(Vec sum, const uint32_t* offsets, const uint32_t* scales, const uint32_t* row) {
  float of_row = 0;
  __builtin_memcpy(&of_row, row, sizeof of_row);
  return exact_sum(sum, offsets) * (Vec::load(reinterpret_cast<const float*>(scales)) * Vec::all(of_row));
}

}  // namespace dpi::kernels::cpu::DPI_ISA
