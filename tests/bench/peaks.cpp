// The ceilings that need the widest registers: reads and multiply-adds.
#include <immintrin.h>

#include <algorithm>

#include "bench/ceilings.hpp"

namespace dpi::bench {

namespace {

bool has_avx512() { return __builtin_cpu_supports("avx512f") != 0; }
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }

constexpr int kChains = 16;  // more than the latency of an operation times the units that work on it
constexpr int64_t kRounds = 20000;

__attribute__((target("avx512f"))) float read_512(const char* from, int64_t bytes) {
  __m512 sums[8] = {};
  for (int64_t at = 0; at < bytes; at += 512) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) sums[i] = _mm512_add_ps(sums[i], _mm512_load_ps(from + at + i * 64));
  }
  __m512 sum = sums[0];
  for (int i = 1; i < 8; ++i) sum = _mm512_add_ps(sum, sums[i]);
  return _mm512_cvtss_f32(sum);
}

__attribute__((target("avx2"))) float read_256(const char* from, int64_t bytes) {
  __m256 sums[8] = {};
  for (int64_t at = 0; at < bytes; at += 256) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      sums[i] = _mm256_add_ps(sums[i], _mm256_load_ps(reinterpret_cast<const float*>(from + at + i * 32)));
    }
  }
  __m256 sum = sums[0];
  for (int i = 1; i < 8; ++i) sum = _mm256_add_ps(sum, sums[i]);
  return _mm256_cvtss_f32(sum);
}

__attribute__((target("avx512f"))) float multiply_512() {
  __m512 chains[kChains], a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  for (__m512& c : chains) c = b;
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) chains[c] = _mm512_fmadd_ps(chains[c], a, b);
  }
  float sum = 0;
  for (const __m512 c : chains) sum += _mm512_cvtss_f32(c);
  return sum;
}

__attribute__((target("avx2,fma"))) float multiply_256() {
  __m256 chains[kChains], a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
  for (__m256& c : chains) c = b;
  for (int64_t i = 0; i < kRounds; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) chains[c] = _mm256_fmadd_ps(chains[c], a, b);
  }
  float sum = 0;
  for (const __m256 c : chains) sum += _mm256_cvtss_f32(c);
  return sum;
}

}  // namespace

double read_ceiling(int64_t bytes) {
  if (!has_avx2()) return 0;
  const Memory from = make_memory(bytes);
  volatile float sink = 0;
  const double t =
      best_seconds([&] { sink = has_avx512() ? read_512(from.get(), bytes) : read_256(from.get(), bytes); });
  return static_cast<double>(bytes) / t * 1e-9;
}

double fma_ceiling() {
  if (!has_avx2()) return 0;
  volatile float sink = 0;
  const double t = best_seconds([&] { sink = has_avx512() ? multiply_512() : multiply_256(); });
  const int lanes = has_avx512() ? 16 : 8;
  return 2.0 * static_cast<double>(kChains * kRounds * lanes) / t * 1e-9;
}

}  // namespace dpi::bench
