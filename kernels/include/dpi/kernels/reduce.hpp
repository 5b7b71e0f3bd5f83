// Reduce one axis: sum, mean, max, sum of squares, with an optional mask (FORMAT.md part 7, Reduce).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

enum class ReduceKind : int32_t { kSum = 0, kMean = 1, kMax = 2, kSumSq = 3 };

struct ReduceAttrs {
  ReduceKind kind = ReduceKind::kSum;
  int32_t axis = -1;  // resolved by the graph to 0 .. rank-1
  int32_t keepdim = 0;
  float eps = 0;
  float empty = 0;
};

/// x: [rows, A.., n, B..] reduced over n. mask: dims A.., n; data null when absent. dst: [rows, A.., (1,)
/// B..]; aliases nothing.
struct ReduceArgs {
  ReduceAttrs attrs;
  Tensor x;
  Tensor mask;
  Tensor dst;
};

namespace ref {
void reduce(const ReduceArgs& a);
}
namespace cpu {
void reduce(const ReduceArgs& a);
}

}  // namespace dpi::kernels
