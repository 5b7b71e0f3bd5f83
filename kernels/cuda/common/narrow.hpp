// The 16-bit element types of kernels: IEEE binary16 and bfloat16 as they lie in memory, and the way to and
// from float. Narrowing rounds to nearest, ties to even; what is too large becomes infinity, NaN stays NaN.
#pragma once

#include <cstring>
#include <type_traits>

#include <dpi/kernels/tensor.hpp>

#include "kernels/cuda/common/simt.hpp"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
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

__device__ inline Half half_of(float v) { return {__half_as_ushort(__float2half_rn(v))}; }
__device__ inline Bfloat16 bfloat16_of(float v) { return {__bfloat16_as_ushort(__float2bfloat16_rn(v))}; }

/// Rounded to the 10 bits of mantissa that a tf32 product sees, ties away from zero.
__device__ inline float tf32_of(float v) {
  uint32_t bits = __float_as_uint(v);
  if ((bits & 0x7f800000u) == 0x7f800000u) return v;  // infinite or NaN
  return __uint_as_float((bits + 0x1000u) & 0xffffe000u);
}

#else

inline float float_from_bits(uint32_t bits) {
  float v;
  memcpy(&v, &bits, sizeof(v));
  return v;
}
inline uint32_t bits_of(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof(bits));
  return bits;
}

inline float widened(Half h) {
  const uint32_t sign = (h.bits & 0x8000u) << 16;
  const uint32_t exponent = (h.bits >> 10) & 0x1fu;
  const uint32_t mantissa = h.bits & 0x3ffu;
  if (exponent == 0) {  // mantissa * 2^-24
    const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 0x1fu) return float_from_bits(sign | 0x7f800000u | (mantissa << 13));
  return float_from_bits(sign | ((exponent + 112) << 23) | (mantissa << 13));
}
inline float widened(Bfloat16 b) { return float_from_bits(uint32_t{b.bits} << 16); }

inline Half half_of(float v) {
  const uint32_t bits = bits_of(v);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {0x7fff};                                  // as the device has it
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // 65520 and more
  if (magnitude < 0x38800000u) {                                                 // below 2^-14
    const float scaled = float_from_bits(magnitude) * 16777216.0f + 8388608.0f;  // in units of 2^-24
    return {static_cast<uint16_t>(sign | (bits_of(scaled) & 0x7ffu))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

inline Bfloat16 bfloat16_of(float v) {
  const uint32_t bits = bits_of(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

inline float tf32_of(float v) {
  const uint32_t bits = bits_of(v);
  if ((bits & 0x7f800000u) == 0x7f800000u) return v;
  return float_from_bits((bits + 0x1000u) & 0xffffe000u);
}

#endif

__device__ inline float widened(float v) { return v; }

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
