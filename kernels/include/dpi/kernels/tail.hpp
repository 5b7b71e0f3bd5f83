// Tail: the end of a CTR model. Each branch gives a vector (dotted with its part of the last linear layer) or
// a scalar; they are added to the bias and go through the head's activation, so that branches stay
// independent until the very end.
//
//   logit[r] = bias + sum_i (w_i . x_i[r])      w_i absent: x_i has one element and is added as it is
//   value[r] = act(logit[r])
#pragma once

#include <dpi/kernels/unary.hpp>

namespace dpi::kernels {

struct TailAttrs {
  UnaryAttrs act;  // kIdentity, kSigmoid or any parameterless kind
  float bias = 0;
};

/// inputs: n_inputs operands (tensor members, [rows, n_i]); weights: n_inputs params, [n_i] or absent (then
/// n_i == 1). logit: [rows, 1], data may be null; value: [rows, 1], data may be null (then only the logit is
/// written).
struct TailArgs {
  TailAttrs attrs;
  const Operand* inputs = nullptr;
  const Param* weights = nullptr;
  int64_t n_inputs = 0;
  int64_t rows = 0;
  Tensor logit;
  Tensor value;
};

namespace ref {
void tail(const TailArgs& a);
}
namespace cpu {
void tail(const TailArgs& a);
}

}  // namespace dpi::kernels
