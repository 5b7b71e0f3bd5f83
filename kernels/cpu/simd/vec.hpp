// The Vec struct of the instruction set this file is compiled for. Every source of kernels/cpu that includes
// it is compiled once per set, with DPI_ISA naming the set and its namespace:
// dpi::kernels::cpu::{scalar,avx2,avx512,avx512_bf16,neon}. Differences between the sets live in
// vec_<isa>.hpp only.
//
// Objects compiled for a newer set must not define symbols that other objects could use in their place (the
// linker keeps one of equal inline functions). Therefore such sources call no inline function of a shared
// header (Dims::size, Tensor::row, the standard library) but the helpers below, which live in the set's own
// namespace.
#pragma once

#include <cstdint>
#include <cstring>

#include <dpi/kernels/tensor.hpp>

#define DPI_INLINE inline __attribute__((always_inline))
#define DPI_RESTRICT __restrict__
// Loops over registers: arrays of Vec stay in registers only if every index is a constant.
#if defined(DPI_NO_UNROLL)  // a build that looks for faults and has them in memory
#define DPI_UNROLL
#elif defined(__clang__)
#define DPI_UNROLL _Pragma("clang loop unroll(full)")
#else
#define DPI_UNROLL _Pragma("GCC unroll 16")
#endif

#if defined(DPI_ISA_AVX512_BF16)  // products in bf16 only
#define DPI_ISA avx512_bf16
#include "kernels/cpu/simd/vec_avx512.hpp"
#elif defined(DPI_ISA_AVX512_VNNI)  // products in int8 only
#define DPI_ISA avx512_vnni
#include "kernels/cpu/simd/vec_avx512.hpp"
#elif defined(DPI_ISA_AMX)  // products in bf16 and int8 only
#define DPI_ISA amx
#include "kernels/cpu/simd/vec_avx512.hpp"
#elif defined(DPI_ISA_AVX512)
#define DPI_ISA avx512
#include "kernels/cpu/simd/vec_avx512.hpp"
#elif defined(DPI_ISA_AVX2)
#define DPI_ISA avx2
#include "kernels/cpu/simd/vec_avx2.hpp"
#elif defined(DPI_ISA_NEON_DOT)  // products in int8 only
#define DPI_ISA neon_dot
#include "kernels/cpu/simd/vec_neon.hpp"
#elif defined(DPI_ISA_NEON_MMLA)  // products in bf16 and int8 only
#define DPI_ISA neon_mmla
#include "kernels/cpu/simd/vec_neon.hpp"
#elif defined(DPI_ISA_NEON)
#define DPI_ISA neon
#include "kernels/cpu/simd/vec_neon.hpp"
#elif defined(DPI_ISA_TILE_MODEL)  // the products of amx over a model of its registers, in tests
#define DPI_ISA tile_model
#include "kernels/cpu/simd/vec_scalar.hpp"
#else
#define DPI_ISA scalar
#include "kernels/cpu/simd/vec_scalar.hpp"
#endif

namespace dpi::kernels::cpu::DPI_ISA {

DPI_INLINE int64_t dims_size(const Dims& d) {
  int64_t n = 1;
  for (int i = 0; i < d.rank; ++i) n *= d.d[i];
  return n;
}

DPI_INLINE float* row_of(const Tensor& t, int64_t r) { return t.data + r * t.row_stride; }

template <class T>
DPI_INLINE constexpr T min_of(T a, T b) {
  return a < b ? a : b;
}

template <class T>
DPI_INLINE constexpr T max_of(T a, T b) {
  return a > b ? a : b;
}

/// Calls body(i, n) for i = 0, W, 2W ..: n == W for full vectors (a constant after inlining), the rest once
/// with n < W.
template <class Body>
DPI_INLINE void for_vectors(int64_t count, Body&& body) {
  int64_t i = 0;
  for (; i + Vec::W <= count; i += Vec::W) body(i, int64_t{Vec::W});
  if (i < count) body(i, count - i);
}

/// body<0>() .. body<N - 1>().
template <int N, class Body>
DPI_INLINE void for_constants(const Body& body) {
  if constexpr (N > 0) {
    for_constants<N - 1>(body);
    body.template operator()<N - 1>();
  }
}

DPI_INLINE Vec load_n(const float* p, int64_t n) { return n >= Vec::W ? Vec::load(p) : Vec::load_part(p, n); }
DPI_INLINE void store_n(float* p, Vec v, int64_t n) { n >= Vec::W ? v.store(p) : v.store_part(p, n); }

/// dst and src do not overlap.
DPI_INLINE void copy_floats(float* DPI_RESTRICT dst, const float* DPI_RESTRICT src, int64_t n) {
  for_vectors(n, [&](int64_t i, int64_t k) { store_n(dst + i, load_n(src + i, k), k); });
}

/// sum of a[i] b[i], four running vectors.
DPI_INLINE float dot(const float* a, const float* b, int64_t n) {
  Vec s0 = Vec::zero(), s1 = Vec::zero(), s2 = Vec::zero(), s3 = Vec::zero();
  int64_t i = 0;
  for (; i + 4 * Vec::W <= n; i += 4 * Vec::W) {
    s0 = fma(Vec::load(a + i), Vec::load(b + i), s0);
    s1 = fma(Vec::load(a + i + Vec::W), Vec::load(b + i + Vec::W), s1);
    s2 = fma(Vec::load(a + i + 2 * Vec::W), Vec::load(b + i + 2 * Vec::W), s2);
    s3 = fma(Vec::load(a + i + 3 * Vec::W), Vec::load(b + i + 3 * Vec::W), s3);
  }
  for (; i + Vec::W <= n; i += Vec::W) s0 = fma(Vec::load(a + i), Vec::load(b + i), s0);
  if (i < n) s1 = fma(Vec::load_part(a + i, n - i), Vec::load_part(b + i, n - i), s1);
  return ((s0 + s1) + (s2 + s3)).sum();
}

}  // namespace dpi::kernels::cpu::DPI_ISA
