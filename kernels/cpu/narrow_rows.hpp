// Rows of x made narrow, as products in bf16 and in int8 read them, and sums in int8 made float32. Included
// by sources of sets with such products only, and of tile_model, which says in plain code what the others do.
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

#if defined(DPI_ISA_TILE_MODEL)
/// Whole numbers nearest to v, and 128, as bytes.
DPI_INLINE void store_bytes(Vec v, int64_t, uint8_t* dst) {
  *dst = static_cast<uint8_t>(static_cast<int32_t>(__builtin_nearbyintf(v.v)) + 128);
}

/// A sum's 32 bits, less `offsets`, as a float.
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

#if defined(DPI_ISA_AVX512_VNNI) || defined(DPI_ISA_AMX) || defined(DPI_ISA_TILE_MODEL)
/// Rounds a row to bytes, 128 more than their values, in `words` words, and writes its scale behind them.
/// A number that is not finite leaves all to the scale.
DPI_INLINE void round_int8_row(const float* x, int64_t k, int64_t words, uint32_t* dst) {
  const float scale = row_scale(x, k);
  const Vec factor = Vec::all(scale > 0 ? 1.0f / scale : 0.0f);
  for (int64_t i = k / 4; i < words; ++i) dst[i] = 0x80808080u;
  for_vectors(k, [&](int64_t i, int64_t n) {
    const Vec v = scale > 0 ? load_n(x + i, n) * factor : Vec::zero();
    store_bytes(v, n, reinterpret_cast<uint8_t*>(dst) + i);
  });
  __builtin_memcpy(dst + words, &scale, sizeof scale);
}

/// A sum of row and column with their scales: of the columns of `scales`, of a row's at `row`.
DPI_INLINE Vec scaled_sum(Vec sum, const uint32_t* offsets, const uint32_t* scales, const uint32_t* row) {
  float of_row = 0;
  __builtin_memcpy(&of_row, row, sizeof of_row);
  return exact_sum(sum, offsets) * (Vec::load(reinterpret_cast<const float*>(scales)) * Vec::all(of_row));
}
#endif

}  // namespace dpi::kernels::cpu::DPI_ISA
