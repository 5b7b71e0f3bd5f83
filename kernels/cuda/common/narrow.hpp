// The 16-bit element types of kernels: IEEE binary16 and bfloat16 as they lie in memory, and the way to and
// from float. Narrowing rounds to nearest, ties to even; what is finite and too large becomes the largest
// finite value, infinities stay, NaN stays NaN.
#pragma once

#include <cfloat>
#include <cstring>
#include <type_traits>

#include <dpi/kernels/tensor.hpp>

#include "kernels/cuda/common/simt.hpp"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>
#endif

namespace dpi::kernels::cuda {

struct Half {
  uint16_t bits;
};

struct Bfloat16 {
  uint16_t bits;
};

#ifdef __CUDACC__

__device__ inline float widened(Half h) {
  __half_raw raw;
  raw.x = h.bits;
  return __half2float(__half(raw));
}
__device__ inline float widened(Bfloat16 b) { return __uint_as_float(uint32_t{b.bits} << 16); }

/// An infinity that `v` is not is taken back by one step, to the largest finite value.
__device__ inline uint16_t kept_finite(uint16_t bits, uint32_t infinity, float v) {
  const bool lost = (bits & 0x7fffu) == infinity && fabsf(v) <= FLT_MAX;
  return static_cast<uint16_t>(bits - (lost ? 1 : 0));
}

__device__ inline Half half_of(float v) {
  return {kept_finite(__half_as_ushort(__float2half_rn(v)), 0x7c00u, v)};
}
__device__ inline Bfloat16 bfloat16_of(float v) {
  return {kept_finite(__bfloat16_as_ushort(__float2bfloat16_rn(v)), 0x7f80u, v)};
}

/// Rounded to the 10 bits of mantissa that a tf32 product sees, ties away from zero.
__device__ inline float tf32_of(float v) {
  uint32_t bits = __float_as_uint(v);
  if ((bits & 0x7f800000u) == 0x7f800000u) return v;  // infinite or NaN
  return __uint_as_float((bits + 0x1000u) & 0xffffe000u);
}

#else

inline float widened(Half h) { return half_to_float(h.bits); }
inline float widened(Bfloat16 b) { return bf16_to_float(b.bits); }
inline Half half_of(float v) { return {float_to_half(v)}; }
inline Bfloat16 bfloat16_of(float v) { return {float_to_bf16(v)}; }
inline float tf32_of(float v) { return round_to_tf32(v); }

#endif

__device__ inline float widened(float v) { return v; }

__device__ inline float float_of(uint32_t bits) {
  float v;
  memcpy(&v, &bits, sizeof(v));
  return v;
}
__device__ inline uint32_t bits_of(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof(bits));
  return bits;
}

/// `v` as an element of type T.
template <class T>
__device__ T narrowed(float v) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return v;
  } else if constexpr (std::is_same_v<T, Half>) {
    return half_of(v);
  } else {
    return bfloat16_of(v);
  }
}

}  // namespace dpi::kernels::cuda
