#include "runtime/request/pack_values.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define DPI_X86 1
#endif

namespace dpi {

namespace {

bool good_id(int64_t id, uint64_t limit, int64_t missing) {
  return static_cast<uint64_t>(id) < limit && id != missing;
}

bool ids_scalar(const int64_t* ids, const uint64_t* limit, const int64_t* missing, int64_t n, int32_t* out) {
  bool good = true;
  for (int64_t k = 0; k < n; ++k) {
    good &= good_id(ids[k], limit[k], missing[k]);
    out[k] = static_cast<int32_t>(ids[k]);
  }
  return good;
}

bool columns_scalar(const int64_t* const* columns, const uint64_t* limit, const int64_t* missing,
                    int64_t rows, int32_t* out, int64_t width) {
  bool good = true;
  for (int64_t c = 0; c < kColumnsAtOnce; ++c)
    good &= pack_column(columns[c], limit[c], missing[c], rows, out + c, width);
  return good;
}

bool bag_scalar(const int64_t* ids, uint64_t limit, int64_t missing, int64_t n, int32_t* out) {
  return pack_column(ids, limit, missing, n, out, 1);
}

bool one_each_scalar(const int64_t* offsets, int64_t n) {
  bool good = true;
  for (int64_t k = 1; k <= n; ++k) good &= offsets[k] == offsets[0] + k;
  return good;
}

bool ones_scalar(const float* weights, int64_t n) {
  bool good = true;
  for (int64_t k = 0; k < n; ++k) good &= weights[k] == 1.0f;
  return good;
}

constexpr PackForms kScalar = {ids_scalar, columns_scalar, bag_scalar, one_each_scalar, ones_scalar};

#ifdef DPI_X86

#define DPI_AVX2 __attribute__((target("avx2")))

DPI_AVX2 inline __m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

/// Flags collected from ids, by lane: all ids are good when no highest bit of `any` is set and all of `below`
/// are.
struct Seen {
  __m256i any, below;
};

DPI_AVX2 inline Seen nothing_seen() { return {_mm256_setzero_si256(), _mm256_set1_epi64x(-1)}; }

/// An id from 0 on is below its limit where their difference is negative; limits are below 2^63.
DPI_AVX2 inline void see(__m256i id, __m256i limit, __m256i missing, Seen* seen) {
  seen->any = _mm256_or_si256(seen->any, _mm256_or_si256(id, _mm256_cmpeq_epi64(id, missing)));
  seen->below = _mm256_and_si256(seen->below, _mm256_sub_epi64(id, limit));
}

DPI_AVX2 inline bool all_good(const Seen& seen) {
  const __m256i good = _mm256_andnot_si256(seen.any, seen.below);
  return _mm256_movemask_pd(_mm256_castsi256_pd(good)) == 0xF;
}

DPI_AVX2 inline void store_low_halves(__m256i id, int32_t* out) {
  const __m256i narrow = _mm256_permutevar8x32_epi32(id, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(narrow));
}

DPI_AVX2 bool ids_avx2(const int64_t* ids, const uint64_t* limit, const int64_t* missing, int64_t n,
                       int32_t* out) {
  if (n < 4) return ids_scalar(ids, limit, missing, n, out);
  Seen seen = nothing_seen();
  for (int64_t at = 0; at < n; at += 4) {
    const int64_t k = std::min(at, n - 4);  // the last four overlap those before them
    const __m256i id = load(ids + k);
    see(id, load(limit + k), load(missing + k), &seen);
    store_low_halves(id, out + k);
  }
  return all_good(seen);
}

/// Four rows of four columns: a column's ids come in one register, a row's go in one.
DPI_AVX2 inline void pack_square(const int64_t* const* columns, const __m256i* limit, const __m256i* missing,
                                 int64_t r, int32_t* out, int64_t width, Seen* seen) {
  __m256i id[kColumnsAtOnce];
  for (int64_t c = 0; c < kColumnsAtOnce; ++c) {
    id[c] = load(columns[c] + r);
    see(id[c], limit[c], missing[c], seen);
  }
  const __m256i first = _mm256_blend_epi32(id[0], _mm256_slli_epi64(id[1], 32), 0xAA);
  const __m256i last = _mm256_blend_epi32(id[2], _mm256_slli_epi64(id[3], 32), 0xAA);
  const __m256i even = _mm256_unpacklo_epi64(first, last), odd = _mm256_unpackhi_epi64(first, last);
  const __m128i rows[4] = {_mm256_castsi256_si128(even), _mm256_castsi256_si128(odd),
                           _mm256_extracti128_si256(even, 1), _mm256_extracti128_si256(odd, 1)};
  for (int64_t i = 0; i < 4; ++i)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + (r + i) * width), rows[i]);
}

DPI_AVX2 bool columns_avx2(const int64_t* const* columns, const uint64_t* limit, const int64_t* missing,
                           int64_t rows, int32_t* out, int64_t width) {
  __m256i most[kColumnsAtOnce], none[kColumnsAtOnce];
  for (int64_t c = 0; c < kColumnsAtOnce; ++c) {
    most[c] = _mm256_set1_epi64x(static_cast<int64_t>(limit[c]));
    none[c] = _mm256_set1_epi64x(missing[c]);
  }
  Seen seen = nothing_seen();
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) pack_square(columns, most, none, r, out, width, &seen);
  bool good = all_good(seen);
  for (int64_t c = 0; c < kColumnsAtOnce && r < rows; ++c)
    good &= pack_column(columns[c] + r, limit[c], missing[c], rows - r, out + r * width + c, width);
  return good;
}

DPI_AVX2 bool bag_avx2(const int64_t* ids, uint64_t limit, int64_t missing, int64_t n, int32_t* out) {
  if (n < 4) return bag_scalar(ids, limit, missing, n, out);
  const __m256i most = _mm256_set1_epi64x(static_cast<int64_t>(limit));
  const __m256i none = _mm256_set1_epi64x(missing);
  Seen seen = nothing_seen();
  for (int64_t at = 0; at < n; at += 4) {
    const int64_t k = std::min(at, n - 4);
    const __m256i id = load(ids + k);
    see(id, most, none, &seen);
    store_low_halves(id, out + k);
  }
  return all_good(seen);
}

DPI_AVX2 bool one_each_avx2(const int64_t* offsets, int64_t n) {
  __m256i want = _mm256_add_epi64(_mm256_set1_epi64x(offsets[0]), _mm256_setr_epi64x(1, 2, 3, 4));
  __m256i differ = _mm256_setzero_si256();
  int64_t k = 1;
  for (; k + 4 <= n + 1; k += 4) {
    differ = _mm256_or_si256(differ, _mm256_xor_si256(load(offsets + k), want));
    want = _mm256_add_epi64(want, _mm256_set1_epi64x(4));
  }
  bool good = _mm256_testz_si256(differ, differ) != 0;
  for (; k <= n; ++k) good &= offsets[k] == offsets[0] + k;
  return good;
}

DPI_AVX2 bool ones_avx2(const float* weights, int64_t n) {
  const __m256 one = _mm256_set1_ps(1.0f);
  __m256 differ = _mm256_setzero_ps();
  int64_t k = 0;
  for (; k + 8 <= n; k += 8)
    differ = _mm256_or_ps(differ, _mm256_cmp_ps(_mm256_loadu_ps(weights + k), one, _CMP_NEQ_UQ));
  const __m256i any = _mm256_castps_si256(differ);
  const bool good = _mm256_testz_si256(any, any) != 0;
  return ones_scalar(weights + k, n - k) && good;
}

constexpr PackForms kAvx2 = {ids_avx2, columns_avx2, bag_avx2, one_each_avx2, ones_avx2};

__attribute__((target("avx512f,avx512vl"))) bool ids_avx512(const int64_t* ids, const uint64_t* limit,
                                                            const int64_t* missing, int64_t n, int32_t* out) {
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

// Where limits are not read beside the ids, memory is the limit already: AVX2 does.
constexpr PackForms kAvx512 = {ids_avx512, columns_avx2, bag_avx2, one_each_avx2, ones_avx2};

#endif

const PackForms& best_forms() {
  const PackForms* best = &kScalar;
  for (int i = 1; i <= 2; ++i) {
    if (const PackForms* forms = pack_forms(i); forms != nullptr) best = forms;
  }
  return *best;
}

const PackForms& g_forms = best_forms();

}  // namespace

const PackForms* pack_forms(int form) {
  if (form == 0) return &kScalar;
#ifdef DPI_X86
  const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  if (form == 1 && avx2) return &kAvx2;
  if (form == 2 && avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
    return &kAvx512;
#endif
  return nullptr;
}

const PackForms& pack_forms() { return g_forms; }

bool pack_column(const int64_t* ids, uint64_t limit, int64_t missing, int64_t n, int32_t* out,
                 int64_t stride) {
  bool good = true;
  for (int64_t k = 0; k < n; ++k) {
    good &= good_id(ids[k], limit, missing);
    out[k * stride] = static_cast<int32_t>(ids[k]);
  }
  return good;
}

int64_t drop_missing(const int64_t* ids, uint64_t limit, int64_t missing, int64_t n, int32_t* out) {
  int64_t left = 0;
  bool good = true;
  for (int64_t k = 0; k < n; ++k) {
    const bool here = ids[k] != missing;
    good &= static_cast<uint64_t>(ids[k]) < limit || !here;
    out[left] = static_cast<int32_t>(ids[k]);  // written over where it is missing; left <= k
    left += static_cast<int64_t>(here);
  }
  return good ? left : -1;
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
