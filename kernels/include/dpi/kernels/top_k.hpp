// TopK: where the largest or smallest entries of an axis are, in order (FORMAT.md part 7, TopK).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

struct TopKAttrs {
  int32_t axis = -1;  // resolved by the graph to 0 .. rank-1
  int32_t largest = 1;
  int64_t k = 1;  // 1 .. the axis' extent
};

/// A NaN is larger than every number, as torch has it; 0 and -0 are equal.
constexpr bool is_larger(float a, float b) { return a != a ? b == b : a > b; }

/// Does entry i, of value a, stand before entry j, of value b? Of equal ones the first comes first, so that
/// the order is total and every device finds the same.
constexpr bool comes_before(const TopKAttrs& attrs, float a, int64_t i, float b, int64_t j) {
  const bool before = attrs.largest != 0 ? is_larger(a, b) : is_larger(b, a);
  const bool behind = attrs.largest != 0 ? is_larger(b, a) : is_larger(a, b);
  return before || (!behind && i < j);
}

/// x: [rows, A.., n, B..]. dst: [rows, A.., k, B..], positions 0 .. n-1 as floats, which hold them exactly (a
/// row has at most 2^24 elements); aliases nothing.
struct TopKArgs {
  TopKAttrs attrs;
  Tensor x;
  Tensor dst;
};

namespace ref {
void top_k(const TopKArgs& a);
}
namespace cuda {
int top_k(const TopKArgs& a, void* stream);
}

}  // namespace dpi::kernels
