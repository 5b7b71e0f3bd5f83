// Weights as gemm_int8 reads them. Plain code, as pack_bf16.hpp is.
#pragma once

#include <cstdint>

namespace dpi::kernels::cpu {

/// The deepest product whose sums a 32-bit integer holds: 255 * 127 * k < 2^31.
constexpr int64_t kInt8Depth = 65536;

/// Are all n of them finite?
bool all_finite(const float* v, int64_t n);

/// A column's weight is byte * scale, scale = its largest magnitude / 127; to nearest, ties to even.
float int8_scale(const float* column, int64_t k);
int8_t int8_of(float weight, float scale);

/// weight: [n, k], finite; packed: panels of `panel` columns, the last one's rounded up to a multiple of
/// `lanes`; a panel holds (depth + 3) / 4 rows of words with four bytes of their column each, a row with 128
/// times the sums of the columns' bytes, and a row with their scales, zero beyond n and k.
/// depth >= k. beside: words of a column's bytes that lie side by side, of which depth is a multiple.
void pack_int8(const float* weight, int64_t n, int64_t k, int64_t depth, int64_t panel, int64_t lanes,
               uint32_t* packed, int64_t beside = 1);

}  // namespace dpi::kernels::cpu
