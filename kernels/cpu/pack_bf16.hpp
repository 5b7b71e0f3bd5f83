// Weights as gemm_bf16 reads them, for panels of any width. Plain code: it rounds with the inline functions
// of a shared header, which sources compiled per instruction set must not call.
#pragma once

#include <cstdint>

namespace dpi::kernels::cpu {

/// Does bf16 hold all n of them? (narrow.hpp: nothing finite is beyond its largest value.)
bool bf16_holds_all(const float* v, int64_t n);

/// weight: [n, k]; packed: panels of `panel` columns, the last one's rounded up to a multiple of `lanes`; a
/// panel holds (depth + 1) / 2 rows of words, each with two of its column, the first in the lower half, zero
/// beyond n and k. depth >= k. beside: words of a column that lie side by side, of which depth is a multiple.
void pack_bf16(const float* weight, int64_t n, int64_t k, int64_t depth, int64_t panel, int64_t lanes,
               uint32_t* packed, int64_t beside = 1);

}  // namespace dpi::kernels::cpu
