#include "store/host_tier/default_row.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <dpi/kernels/narrow.hpp>

namespace dpi {

namespace {

/// A row of floats as the table's rows are; step: the scale of i8.
std::vector<std::byte> encoded_row(const tiered::TierTable& table, const std::vector<float>& values,
                                   float step) {
  std::vector<std::byte> row(static_cast<size_t>(tiered::row_bytes(table)));
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
  constexpr float kSteps = 127, kLeastScale = 1e-38f;
  const std::vector<double>& own = table.keyed->default_row;
  std::vector<float> values(own.begin(), own.end());
  values.resize(dim);
  float most = 0;
  for (const float v : values) most = std::max(most, std::fabs(v));
  const float scale = most / kSteps;
  return encoded_row(row, values, scale > kLeastScale ? scale : 0);
}

}  // namespace dpi
