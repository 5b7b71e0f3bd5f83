#include "runtime/request/pack_values.hpp"

#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define DPI_X86 1
#endif

namespace dpi {

namespace {

bool pack_scalar(const int64_t* ids, const uint64_t* limit, const int64_t* missing, int64_t n, int32_t* out) {
  bool bad = false;
  for (int64_t k = 0; k < n; ++k) {
    bad |= static_cast<uint64_t>(ids[k]) >= limit[k];
    bad |= ids[k] == missing[k];
    out[k] = static_cast<int32_t>(ids[k]);
  }
  return !bad;
}

#ifdef DPI_X86

__attribute__((target("avx2"))) bool pack_avx2(const int64_t* ids, const uint64_t* limit,
                                               const int64_t* missing, int64_t n, int32_t* out) {
  const __m256i sign = _mm256_set1_epi64x(INT64_MIN);  // makes a signed compare an unsigned one
  const __m256i low_halves = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  __m256i bad = _mm256_setzero_si256();
  int64_t k = 0;
  for (; k + 4 <= n; k += 4) {
    const __m256i id = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ids + k));
    const __m256i most = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(limit + k));
    const __m256i none = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(missing + k));
    const __m256i below = _mm256_cmpgt_epi64(_mm256_xor_si256(most, sign), _mm256_xor_si256(id, sign));
    bad = _mm256_or_si256(bad, _mm256_cmpeq_epi64(id, none));
    bad = _mm256_or_si256(bad, _mm256_xor_si256(below, _mm256_set1_epi64x(-1)));
    const __m256i narrow = _mm256_permutevar8x32_epi32(id, low_halves);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + k), _mm256_castsi256_si128(narrow));
  }
  const bool good = _mm256_testz_si256(bad, bad) != 0;
  return pack_scalar(ids + k, limit + k, missing + k, n - k, out + k) && good;
}

__attribute__((target("avx512f,avx512vl"))) bool pack_avx512(const int64_t* ids, const uint64_t* limit,
                                                             const int64_t* missing, int64_t n,
                                                             int32_t* out) {
  __mmask8 bad = 0;
  for (int64_t k = 0; k < n; k += 8) {
    const auto lanes = static_cast<__mmask8>(n - k >= 8 ? 0xFF : (1u << (n - k)) - 1);
    const __m512i id = _mm512_maskz_loadu_epi64(lanes, ids + k);
    const __m512i most = _mm512_maskz_loadu_epi64(lanes, limit + k);
    const __m512i none = _mm512_maskz_loadu_epi64(lanes, missing + k);
    bad = static_cast<__mmask8>(bad | _mm512_mask_cmpge_epu64_mask(lanes, id, most) |
                                _mm512_mask_cmpeq_epi64_mask(lanes, id, none));
    _mm512_mask_cvtepi64_storeu_epi32(out + k, lanes, id);
  }
  return bad == 0;
}

#endif

PackIds best_form() {
  PackIds form = pack_scalar;
  for (int i = 1; i <= 2; ++i) pack_ids_form(i, &form);
  return form;
}

const PackIds g_pack_ids = best_form();

}  // namespace

bool pack_ids_form(int form, PackIds* out) {
  if (form == 0) {
    *out = pack_scalar;
    return true;
  }
#ifdef DPI_X86
  if (form == 1 && __builtin_cpu_supports("avx2")) {
    *out = pack_avx2;
    return true;
  }
  if (form == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
    *out = pack_avx512;
    return true;
  }
#endif
  return false;
}

bool pack_ids(const int64_t* ids, const uint64_t* limit, const int64_t* missing, int64_t n, int32_t* out) {
  return g_pack_ids(ids, limit, missing, n, out);
}

bool pack_column(const int64_t* ids, uint64_t limit, int64_t missing, int64_t n, int32_t* out,
                 int64_t stride) {
  bool bad = false;
  for (int64_t k = 0; k < n; ++k) {
    bad |= static_cast<uint64_t>(ids[k]) >= limit;
    bad |= ids[k] == missing;
    out[k * stride] = static_cast<int32_t>(ids[k]);
  }
  return !bad;
}

bool pack_floats(const float* from, int64_t n, float* to) {
  constexpr uint32_t kExponent = 0x7F800000u;  // all ones: infinity or NaN
  uint32_t bad = 0;
  for (int64_t k = 0; k < n; ++k) {
    const auto bits = std::bit_cast<uint32_t>(from[k]);
    bad |= static_cast<uint32_t>((bits & kExponent) == kExponent);
    to[k] = from[k];
  }
  return bad == 0;
}

}  // namespace dpi
