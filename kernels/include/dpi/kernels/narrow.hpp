// Rounding floats to the types of tensor cores: f16, bf16 and tf32, to nearest. What is finite stays finite:
// beyond the largest value of the type it becomes that value. Plain scalar code for weights on the host and
// for the emulated device; the way back is in row_decode.hpp.
#pragma once

#include <bit>
#include <cstdint>

namespace dpi::kernels {

/// Does rounding to 16 bits leave `v` where it is, within the type's precision? Not where it is finite and
/// beyond the largest value. Infinities and NaN have their like.
inline bool half_holds(float v) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(v) & 0x7fffffffu;
  return magnitude < 0x477ff000u || magnitude >= 0x7f800000u;  // 65520
}
inline bool bf16_holds(float v) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(v) & 0x7fffffffu;
  return magnitude < 0x7f7f8000u || magnitude >= 0x7f800000u;
}

/// IEEE 754 binary16, ties to even. Infinities stay, NaN stays NaN, 65520 and more becomes 65504.
inline uint16_t float_to_half(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude == 0x7f800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (!half_holds(v)) return static_cast<uint16_t>(sign | 0x7bffu);
  if (magnitude < 0x38800000u) {  // below 2^-14: whole units of 2^-24
    const float units = std::bit_cast<float>(magnitude) * 0x1p24f + 0x1p23f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(units) & 0x7ffu));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

/// The upper half of a float, ties to even; never an infinity that was none.
inline uint16_t float_to_bf16(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  if (!bf16_holds(v)) return static_cast<uint16_t>((bits >> 16 & 0x8000u) | 0x7f7fu);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// FP8 of the form e4m3fn, ties to even. 464 and more, and infinities, become 448; NaN stays NaN.
inline uint8_t float_to_fp8(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  const uint32_t sign = (bits >> 24) & 0x80u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  if (magnitude >= 0x43e80000u) return static_cast<uint8_t>(sign | 0x7eu);  // 464, halfway to 480
  if (magnitude < 0x3c800000u) {                                            // below 2^-6: whole units of 2^-9
    const float units = std::bit_cast<float>(magnitude) * 0x1p9f + 0x1p23f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(units) & 0xfu));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded - 0x3c000000u) >> 20));
}

/// 10 bits of mantissa, ties away from zero, as cvt.rna.tf32 has it. Infinity and NaN stay.
inline float round_to_tf32(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  if ((bits & 0x7f800000u) == 0x7f800000u) return v;
  return std::bit_cast<float>((bits + 0x1000u) & 0xffffe000u);
}

}  // namespace dpi::kernels
