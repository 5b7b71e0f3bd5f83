#include "kernels/cpu/pack_int8.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dpi::kernels::cpu {

bool all_finite(const float* v, int64_t n) {
  return std::all_of(v, v + n, [](float w) { return std::isfinite(w); });
}

float int8_scale(const float* column, int64_t k) {
  float most = 0;
  for (int64_t i = 0; i < k; ++i) most = std::max(most, std::fabs(column[i]));
  return most / 127.0f;
}

int8_t int8_of(float weight, float scale) {
  const double q = scale > 0 ? std::nearbyint(double{weight} / scale) : 0;
  return static_cast<int8_t>(std::clamp(q, -127.0, 127.0));  // beyond only where the scale is below 2^-126
}

void pack_int8(const float* weight, int64_t n, int64_t k, int64_t depth, int64_t panel, int64_t lanes,
               uint32_t* packed, int64_t beside) {
  const int64_t quads = (depth + 3) / 4;
  for (int64_t col = 0; col < n; col += panel) {
    const int64_t width = std::min(panel, (n - col + lanes - 1) / lanes * lanes);
    std::fill(packed, packed + (quads + 2) * width, 0u);
    for (int64_t j = 0; j < std::min(width, n - col); ++j) {
      const float* const column = weight + (col + j) * k;
      const float scale = int8_scale(column, k);
      int32_t sum = 0;
      for (int64_t i = 0; i < k; ++i) {
        const int8_t q = int8_of(column[i], scale);
        sum += q;
        const int64_t quad = i / 4;
        packed[(quad / beside * width + j) * beside + quad % beside] |= uint32_t{static_cast<uint8_t>(q)}
                                                                        << (8 * (i % 4));
      }
      packed[quads * width + j] = static_cast<uint32_t>(128 * sum);
      packed[(quads + 1) * width + j] = std::bit_cast<uint32_t>(scale);
    }
    packed += (quads + 2) * width;
  }
}

}  // namespace dpi::kernels::cpu
