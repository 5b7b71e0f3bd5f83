#include "kernels/cpu/pack_bf16.hpp"

#include <algorithm>

#include <dpi/kernels/narrow.hpp>

namespace dpi::kernels::cpu {

bool bf16_holds_all(const float* v, int64_t n) { return std::all_of(v, v + n, bf16_holds); }

void pack_bf16(const float* weight, int64_t n, int64_t k, int64_t depth, int64_t panel, int64_t lanes,
               uint32_t* packed, int64_t beside) {
  const auto at = [&](int64_t column, int64_t i) -> uint32_t {
    return column < n && i < k ? float_to_bf16(weight[column * k + i]) : 0;
  };
  for (int64_t col = 0; col < n; col += panel) {
    const int64_t width = std::min(panel, (n - col + lanes - 1) / lanes * lanes);
    for (int64_t first = 0; first < depth; first += 2 * beside) {
      for (int64_t j = col; j < col + width; ++j) {
        for (int64_t i = first; i < first + 2 * beside; i += 2) *packed++ = at(j, i + 1) << 16 | at(j, i);
      }
    }
  }
}

}  // namespace dpi::kernels::cpu
