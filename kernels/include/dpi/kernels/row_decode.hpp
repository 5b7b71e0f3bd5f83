// Reading rows of embedding tables, element by element, to float: every type of RowForm. Plain scalar code;
// `ref` uses nothing else, other backends use it where they have no vector form. Loads go through memcpy:
// table rows need not be aligned.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

/// IEEE 754 binary16 to float, exact; subnormals, infinities and NaN included.
inline float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1Fu;
  const uint32_t mantissa = h & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24 is exact in float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

/// bfloat16 (the upper half of a float) to float, exact.
inline float bf16_to_float(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

/// An FP8 number of the form e4m3fn to float, exact: bias 7, no infinities, 0x7F and 0xFF are NaN.
inline float fp8_to_float(uint8_t b) {
  const int32_t exponent = (b >> 3) & 15, mantissa = b & 7;
  const uint32_t sign = static_cast<uint32_t>(b & 0x80u) << 24;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(sign | 0x7FC00000u);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (static_cast<uint32_t>(exponent + 120) << 23) |
                              (static_cast<uint32_t>(mantissa) << 20));
}

/// Element `column` of a row whose scale lies behind its elements.
inline float decode_whole(DType type, const char* row, int64_t dim, int64_t column) {
  const char* behind = row + element_row_bytes(type, dim);
  if (type == DType::kFp8) {
    uint8_t bits;
    float scale;
    std::memcpy(&bits, row + column, sizeof(bits));
    std::memcpy(&scale, behind, sizeof(scale));
    return scale * fp8_to_float(bits);
  }
  const int32_t width = row_form(type).bits;
  const int64_t bit = column * width;
  uint8_t byte;
  uint16_t scale, offset;
  std::memcpy(&byte, row + bit / 8, sizeof(byte));
  std::memcpy(&scale, behind, sizeof(scale));
  std::memcpy(&offset, behind + sizeof(scale), sizeof(offset));
  const int32_t number = (byte >> (bit % 8)) & ((1 << width) - 1);
  // The product is exact, so it does not matter whether a compiler joins it with the sum.
  return half_to_float(scale) * static_cast<float>(number) + half_to_float(offset);
}

/// Element `column` of row `row`. 0 <= row < table.rows, 0 <= column < table.dim.
inline float decode_at(const TableView& table, int64_t row, int64_t column) {
  const char* base = static_cast<const char*>(table.base) + row * table.row_bytes;
  if (table.dtype == DType::kF32) {
    float v;
    std::memcpy(&v, base + column * 4, sizeof(v));
    return v;
  }
  if (table.dtype == DType::kI8) {
    int8_t v;
    std::memcpy(&v, base + column, sizeof(v));
    return static_cast<float>(v) * table.scale[row * table.scale_stride];
  }
  if (row_form(table.dtype).whole) return decode_whole(table.dtype, base, table.dim, column);
  uint16_t bits;
  std::memcpy(&bits, base + column * 2, sizeof(bits));
  return table.dtype == DType::kF16 ? half_to_float(bits) : bf16_to_float(bits);
}

/// Row `row` to dst[0 .. dim), which must not overlap the table.
inline void decode_row(const TableView& table, int64_t row, float* dst) {
  for (int64_t k = 0; k < table.dim; ++k) dst[k] = decode_at(table, row, k);
}

/// The `nonzero` rule's definition: is the float32 sum of the row's components, added in order, different
/// from 0?
inline bool row_is_nonzero(const TableView& table, int64_t row) {
  if (table.nonzero != nullptr) return ((table.nonzero[row / 64] >> (row % 64)) & 1u) != 0;
  float sum = 0;
  for (int64_t k = 0; k < table.dim; ++k) sum += decode_at(table, row, k);
  return sum != 0;
}

}  // namespace dpi::kernels
