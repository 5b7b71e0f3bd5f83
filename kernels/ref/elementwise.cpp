#include <dpi/kernels/elementwise.hpp>

#include <dpi/kernels/index.hpp>
#include "apply.hpp"

namespace dpi::kernels::ref {
namespace {

double run_step(const ElementwiseArgs& a, const ElementwiseStep& step, const float* reg, int64_t column) {
  switch (step.kind) {
    case StepKind::kBinary:
      return apply_binary(step.binary, double{reg[step.x]}, double{reg[step.y]});
    case StepKind::kWhere:
      return apply_where(reg[step.x], reg[step.y], reg[step.z]);
    case StepKind::kUnary:
      break;
  }
  Param p[3];
  for (int32_t i = 0; i < step.n_params && step.param >= 0; ++i) p[i] = a.params[step.param + i];
  return apply_unary(step.unary, reg[step.x], channel_params(p[0], p[1], p[2], column));
}

// Every step rounds to float32, so that the fused op gives the same bits as its ops one by one.
float run_steps(const ElementwiseArgs& a, float* reg, int64_t column) {
  for (int32_t k = 0; k < a.attrs.n_steps; ++k)
    reg[a.attrs.n_inputs + k] = static_cast<float>(run_step(a, a.attrs.steps[k], reg, column));
  return reg[a.attrs.n_inputs + a.attrs.n_steps - 1];
}

}  // namespace

void elementwise(const ElementwiseArgs& a) {
  const Dims& dims = a.dst.dims;
  float reg[kMaxElementwiseInputs + kMaxElementwiseSteps];
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t i = 0; i < dims.size(); ++i) {
      for (int32_t j = 0; j < a.attrs.n_inputs; ++j) {
        const Tensor& x = a.inputs[j].tensor;
        reg[j] = x.row(r)[broadcast_offset(dims, i, x.dims)];
      }
      a.dst.row(r)[i] = run_steps(a, reg, i % dims.at(-1));
    }
  }
}

}  // namespace dpi::kernels::ref
