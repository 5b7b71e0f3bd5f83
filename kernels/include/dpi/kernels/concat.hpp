// Concat along one axis (FORMAT.md part 7, Concat).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

struct ConcatAttrs {
  int32_t axis = -1;  // resolved by the graph to 0 .. rank-1
};

/// inputs: n_inputs operands (tensor members). dst aliases nothing.
struct ConcatArgs {
  ConcatAttrs attrs;
  const Operand* inputs = nullptr;
  int64_t n_inputs = 0;
  Tensor dst;
};

namespace ref {
void concat(const ConcatArgs& a);
}
namespace cpu {
void concat(const ConcatArgs& a);
}

}  // namespace dpi::kernels
