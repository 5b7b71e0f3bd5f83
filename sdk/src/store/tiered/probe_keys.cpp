#include "store/tiered/probe_keys.hpp"

#include <bit>

#include "base/prefetch.hpp"

// A vector load of words that others store to is a race in ThreadSanitizer's eyes: there is only the scalar
// form.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#include <immintrin.h>
#define DPI_X86 1
#endif

namespace dpi::tiered {

namespace {

using Bucket = Directory::Bucket;
constexpr int kKeys = Directory::kKeysPerBucket;

inline void hash_all(const Directory& d, const TableCode& t, const int64_t* __restrict keys, int32_t n,
                     uint64_t* __restrict hash, const Bucket** __restrict bucket) {
  const Directory here = d;  // else each store might change it, for all that the compiler knows
  const uint64_t salt = t.salt;
  for (int32_t i = 0; i < n; ++i) {
    hash[i] = mix_key(salt, keys[i]);
    bucket[i] = &here.bucket(here.first_of(hash[i]));
  }
}

/// same(bucket, key): bits of the cells that seem to hold the key. A hint: Directory::cell looks again.
template <class Same>
inline void look_all(const Directory& d, const TableCode& t, const int64_t* keys, const uint64_t* hash,
                     const Bucket* const* bucket, int32_t n, const Bucket* const* ahead, int32_t* places,
                     Same same) {
  const Directory here = d;
  const uint32_t code = t.code;
  for (int32_t i = 0; i < n; ++i) {
    prefetch_line(ahead[i]);
    const Bucket& b = *bucket[i];
    const uint32_t cells = same(b, keys[i]) | 1u << (kKeys - 1);  // none: the last one, which is not believed
    places[i] = here.cell(b, std::countr_zero(cells), code, here.shard_of(hash[i]), keys[i]);
  }
}

void hash_scalar(const Directory& d, const TableCode& t, const int64_t* keys, int32_t n, uint64_t* hash,
                 const Bucket** bucket) {
  hash_all(d, t, keys, n, hash, bucket);
}

void look_scalar(const Directory& d, const TableCode& t, const int64_t* keys, const uint64_t* hash,
                 const Bucket* const* bucket, int32_t n, const Bucket* const* ahead, int32_t* places) {
  look_all(d, t, keys, hash, bucket, n, ahead, places,
           [](const Bucket& b, int64_t key) { return Directory::same_keys(b, key); });
}

#ifdef DPI_X86

__attribute__((target("avx2"))) void look_avx2(const Directory& d, const TableCode& t, const int64_t* keys,
                                               const uint64_t* hash, const Bucket* const* bucket, int32_t n,
                                               const Bucket* const* ahead, int32_t* places) {
  const Directory here = d;
  for (int32_t i = 0; i < n; ++i) {
    prefetch_line(ahead[i]);
    const Bucket& b = *bucket[i];
    const __m256i four = _mm256_load_si256(reinterpret_cast<const __m256i*>(b.key));
    const __m256i same = _mm256_cmpeq_epi64(four, _mm256_set1_epi64x(keys[i]));
    const auto cells =
        static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(same))) | 1u << (kKeys - 1);
    places[i] = here.cell(b, std::countr_zero(cells), t.code, here.shard_of(hash[i]), keys[i]);
  }
}

// The same loop as hash_scalar, which the compiler makes vectors of here: products of 64 bits are
// AVX-512DQ's.
__attribute__((target("avx512f,avx512dq,avx512vl"))) void hash_avx512(const Directory& d, const TableCode& t,
                                                                      const int64_t* keys, int32_t n,
                                                                      uint64_t* hash, const Bucket** bucket) {
  hash_all(d, t, keys, n, hash, bucket);
}

__attribute__((target("avx512f,avx512dq,avx512vl"))) void look_avx512(
    const Directory& d, const TableCode& t, const int64_t* keys, const uint64_t* hash,
    const Bucket* const* bucket, int32_t n, const Bucket* const* ahead, int32_t* places) {
  const Directory here = d;
  for (int32_t i = 0; i < n; ++i) {
    prefetch_line(ahead[i]);
    const Bucket& b = *bucket[i];
    const auto same = _mm512_cmpeq_epi64_mask(_mm512_load_si512(&b), _mm512_set1_epi64(keys[i]));
    const uint32_t cells = same | 1u << (kKeys - 1);  // behind the keys lie words: not the first match then
    places[i] = here.cell(b, std::countr_zero(cells), t.code, here.shard_of(hash[i]), keys[i]);
  }
}

#endif

ProbeKeys best_form() {
  ProbeKeys form;
  for (int i = 0; i <= 2; ++i) probe_keys_form(i, &form);
  return form;
}

const ProbeKeys g_probe_keys = best_form();

}  // namespace

const ProbeKeys& probe_keys() { return g_probe_keys; }

bool probe_keys_form(int form, ProbeKeys* out) {
  if (form == 0) {
    *out = {hash_scalar, look_scalar};
    return true;
  }
#ifdef DPI_X86
  if (form == 1 && __builtin_cpu_supports("avx2")) {
    *out = {hash_scalar, look_avx2};
    return true;
  }
  if (form == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    *out = {hash_avx512, look_avx512};
    return true;
  }
#endif
  return false;
}

}  // namespace dpi::tiered
