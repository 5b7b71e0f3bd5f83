// Four terms of the sums in int8, by what the set has for them. Sums are whole numbers, in the registers of
// floats. Included by gemm_int8.cpp only.
//
//   add_products(x, stride, quads, sum, weights)   x: rows as narrow_rows.hpp leaves them, `stride` words
//                                                  apart; weights(quad, v): four bytes of each of W columns
#pragma once

#include "kernels/cpu/gemm_tiles.hpp"
#include "kernels/cpu/narrow_rows.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

#if defined(DPI_ISA_AVX512_VNNI)

template <int MR, int NV, class Weights>
DPI_INLINE void add_products(const uint32_t* x, int64_t stride, int64_t quads, Vec (&sum)[MR][NV],
                             const Weights& weights) {
  for (int64_t k = 0; k < quads; ++k) {
    add_step(
        sum, [&](int i) { return _mm512_set1_epi32(static_cast<int32_t>(x[i * stride + k])); },
        [&](int v) { return _mm512_loadu_si512(weights(k, v)); },
        [](Vec s, __m512i a, __m512i w) {
          return Vec{_mm512_castsi512_ps(_mm512_dpbusd_epi32(_mm512_castps_si512(s.v), a, w))};
        });
  }
}

#elif defined(DPI_ISA_AVX512) || defined(DPI_ISA_AVX2)

// vpmaddubsw saturates: 2 x 255 x 127 is beyond 16 bits. So bytes are widened to 16 bits, those of a word in
// two steps: elements 0 and 2, then 1 and 3. asm: each sum is added to at once. GCC 12 otherwise makes all
// products of a step first, more than there are registers.
#if defined(DPI_ISA_AVX512)
DPI_INLINE __m512i words_at(const uint32_t* p) { return _mm512_loadu_si512(p); }
DPI_INLINE __m512i every_word(uint32_t w) { return _mm512_set1_epi32(static_cast<int32_t>(w)); }
DPI_INLINE __m512i even_bytes(__m512i w) { return _mm512_srai_epi16(_mm512_slli_epi16(w, 8), 8); }
DPI_INLINE __m512i odd_bytes(__m512i w) { return _mm512_srai_epi16(w, 8); }
DPI_INLINE Vec add_pairs(Vec s, __m512i a, __m512i w) {
  __m512i sum = _mm512_add_epi32(_mm512_castps_si512(s.v), _mm512_madd_epi16(a, w));
  asm("" : "+v"(sum));
  return {_mm512_castsi512_ps(sum)};
}
#else
DPI_INLINE __m256i words_at(const uint32_t* p) { return Vec::load_words(p); }
DPI_INLINE __m256i every_word(uint32_t w) { return _mm256_set1_epi32(static_cast<int32_t>(w)); }
DPI_INLINE __m256i even_bytes(__m256i w) { return _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8); }
DPI_INLINE __m256i odd_bytes(__m256i w) { return _mm256_srai_epi16(w, 8); }
DPI_INLINE Vec add_pairs(Vec s, __m256i a, __m256i w) {
  __m256i sum = _mm256_add_epi32(_mm256_castps_si256(s.v), _mm256_madd_epi16(a, w));
  asm("" : "+x"(sum));
  return {_mm256_castsi256_ps(sum)};
}
#endif

template <int MR, int NV, class Weights>
DPI_INLINE void add_products(const uint32_t* x, int64_t stride, int64_t quads, Vec (&sum)[MR][NV],
                             const Weights& weights) {
  for (int64_t k = 0; k < quads; ++k) {
    add_step(
        sum, [&](int i) { return every_word(x[i * stride + 2 * k]); },
        [&](int v) { return even_bytes(words_at(weights(k, v))); }, add_pairs);
#if defined(DPI_ISA_AVX2)
    // As in gemm_bf16.cpp: words kept for the second step would push sums out of the 16 registers.
    asm volatile("" : : : "memory");
#endif
    add_step(
        sum, [&](int i) { return every_word(x[i * stride + 2 * k + 1]); },
        [&](int v) { return odd_bytes(words_at(weights(k, v))); }, add_pairs);
  }
}

#elif defined(DPI_ISA_NEON) || defined(DPI_ISA_NEON_DOT)

DPI_INLINE int8x16_t bytes_at(const uint32_t* p) { return vreinterpretq_s8_u32(vld1q_u32(p)); }

/// Without an instruction for four terms: two products of bytes fit in 16 bits (2 x 127 x 127), and pairs of
/// such sums are added to 32.
DPI_INLINE Vec add_quads(Vec s, int8x16_t a, int8x16_t w) {
  const int16x8_t lower = vmull_s8(vget_low_s8(a), vget_low_s8(w)), upper = vmull_high_s8(a, w);
  const int32x4_t sums = vpadalq_s16(vreinterpretq_s32_f32(s.v), vpaddq_s16(lower, upper));
  return {vreinterpretq_f32_s32(sums)};
}

template <int MR, int NV, class Weights>
DPI_INLINE void add_products(const uint32_t* x, int64_t stride, int64_t quads, Vec (&sum)[MR][NV],
                             const Weights& weights) {
  int64_t k = 0;
#if defined(DPI_ISA_NEON_DOT)
  for (; k + 4 <= quads; k += 4) {
    int8x16_t four[MR];
    DPI_UNROLL
    for (int i = 0; i < MR; ++i) four[i] = bytes_at(x + i * stride + k);
    for_constants<4>([&]<int kQuad>() {
      add_step(
          sum, [&](int i) { return four[i]; }, [&](int v) { return bytes_at(weights(k + kQuad, v)); },
          [](Vec s, int8x16_t a, int8x16_t w) {
            return Vec{vreinterpretq_f32_s32(vdotq_laneq_s32(vreinterpretq_s32_f32(s.v), w, a, kQuad))};
          });
    });
  }
#endif
  for (; k < quads; ++k) {
    add_step(
        sum, [&](int i) { return vreinterpretq_s8_u32(vdupq_n_u32(x[i * stride + k])); },
        [&](int v) { return bytes_at(weights(k, v)); }, add_quads);
  }
}

#else

// The definition in plain code.
DPI_INLINE Vec add_quad(Vec s, uint32_t a, uint32_t w) {
  auto sum = load_unaligned<int32_t>(&s.v);
  for (int shift = 0; shift < 32; shift += 8)
    sum += static_cast<int8_t>(a >> shift) * static_cast<int8_t>(w >> shift);
  return {load_unaligned<float>(&sum)};
}

template <int MR, int NV, class Weights>
DPI_INLINE void add_products(const uint32_t* x, int64_t stride, int64_t quads, Vec (&sum)[MR][NV],
                             const Weights& weights) {
  for (int64_t k = 0; k < quads; ++k) {
    add_step(sum, [&](int i) { return x[i * stride + k]; }, [&](int v) { return *weights(k, v); }, add_quad);
  }
}

#endif

}  // namespace dpi::kernels::cpu::DPI_ISA
