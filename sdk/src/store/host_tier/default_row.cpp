#include "store/host_tier/default_row.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>

namespace dpi {

namespace {

constexpr float kLeastScale = 1e-38f;

/// A row of i4 or i2 as FBGEMM rounds it, which the exporter does too.
void put_numbers(kernels::DType type, const std::vector<float>& values, std::byte* row) {
  const int32_t bits = kernels::row_form(type).bits, most = (1 << bits) - 1;
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  const uint16_t offset = kernels::float_to_half(*least);
  const float begin = kernels::half_to_float(offset), range = *largest - begin;
  float step =
      kernels::half_to_float(kernels::float_to_half(range == 0 ? 1.0f : range / static_cast<float>(most)));
  if (step == 0 || std::isinf(1.0f / step)) step = 1;
  const float inverse = 1.0f / step;
  for (size_t c = 0; c < values.size(); ++c) {
    const auto q = static_cast<int32_t>(
        std::clamp(std::nearbyint((values[c] - begin) * inverse), 0.0f, static_cast<float>(most)));
    const size_t bit = c * static_cast<size_t>(bits);
    row[bit / 8] |= static_cast<std::byte>(q << (bit % 8));
  }
  const uint16_t behind[] = {kernels::float_to_half(step), offset};
  std::memcpy(row + kernels::element_row_bytes(type, static_cast<int64_t>(values.size())), behind,
              sizeof behind);
}

/// A row of e4m3fn whose largest magnitude becomes 448.
void put_fp8(const std::vector<float>& values, std::byte* row) {
  float most = 0;
  for (const float v : values) most = std::max(most, std::fabs(v));
  const float scale = most / 448.0f > kLeastScale ? most / 448.0f : 0.0f;
  for (size_t c = 0; c < values.size(); ++c)
    row[c] = static_cast<std::byte>(scale > 0 ? kernels::float_to_fp8(values[c] / scale) : 0);
  std::memcpy(row + values.size(), &scale, sizeof scale);
}

/// A row of floats as the table's rows are; step: the scale of i8.
std::vector<std::byte> encoded_row(const tiered::TierTable& table, const std::vector<float>& values,
                                   float step) {
  std::vector<std::byte> row(static_cast<size_t>(tiered::row_bytes(table)));
  if (kernels::row_form(table.dtype).whole) {
    table.dtype == kernels::DType::kFp8 ? put_fp8(values, row.data())
                                        : put_numbers(table.dtype, values, row.data());
    return row;
  }
  const auto put = [&row](size_t at, auto value) { std::memcpy(row.data() + at, &value, sizeof value); };
  for (size_t c = 0; c < values.size(); ++c) {
    switch (table.dtype) {
      case kernels::DType::kF32:
        put(c * 4, values[c]);
        break;
      case kernels::DType::kF16:
        put(c * 2, kernels::float_to_half(values[c]));
        break;
      case kernels::DType::kBF16:
        put(c * 2, kernels::float_to_bf16(values[c]));
        break;
      case kernels::DType::kI8:
        put(c, static_cast<int8_t>(step > 0 ? std::nearbyint(values[c] / step) : 0.0f));
        break;
      default:
        break;  // whole rows, above
    }
  }
  if (table.dtype == kernels::DType::kI8) put(static_cast<size_t>(tiered::scale_at(table.dim)), step);
  return row;
}

}  // namespace

std::vector<std::byte> default_row(const tiered::TierTable& row, const BundleTable& table, float fill) {
  const auto dim = static_cast<size_t>(row.dim);
  if (!table.keyed) {
    return encoded_row(row, std::vector<float>(dim, fill), std::fabs(fill));
  }
  constexpr float kSteps = 127;
  const std::vector<double>& own = table.keyed->default_row;
  std::vector<float> values(own.begin(), own.end());
  values.resize(dim);
  float most = 0;
  for (const float v : values) most = std::max(most, std::fabs(v));
  const float scale = most / kSteps;
  return encoded_row(row, values, scale > kLeastScale ? scale : 0);
}

}  // namespace dpi
