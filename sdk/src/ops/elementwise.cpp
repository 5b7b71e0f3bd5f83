// Elementwise: several element-wise steps in one pass.
#include "ops/op_checker.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

Status check_elementwise(const OpChecker& c) {
  const auto& a = c.op().as<kernels::ElementwiseAttrs>();
  const auto n_in = static_cast<int64_t>(c.op().inputs.size());
  DPI_RETURN_IF_ERROR(c.require(a.n_inputs == n_in && n_in >= 1 && n_in <= kernels::kMaxElementwiseInputs,
                                "n_inputs", number(a.n_inputs),
                                "the op's " + number(n_in) + " inputs, 1 to 8"));
  DPI_RETURN_IF_ERROR(c.require(a.n_steps >= 1 && a.n_steps <= kernels::kMaxElementwiseSteps, "n_steps",
                                number(a.n_steps), "1 to 16"));
  for (size_t i = 0; i < c.op().inputs.size(); ++i) {
    DPI_RETURN_IF_ERROR(c.value("an input", c.op().input(i), 1));
    DPI_RETURN_IF_ERROR(c.require(broadcasts_to(c.in(i), c.out(0)), "an input", text_of(c.in(i)),
                                  "dims that broadcast to " + text_of(c.out(0))));
  }
  for (int32_t k = 0; k < a.n_steps; ++k) {
    const kernels::ElementwiseStep& s = a.steps[k];
    const int32_t known = a.n_inputs + k;
    const auto reads = [&](const char* what, int32_t reg) {
      return c.require(reg >= 0 && reg < known, what, number(reg), "below " + number(known));
    };
    DPI_RETURN_IF_ERROR(reads("a step's x", s.x));
    if (s.kind != kernels::StepKind::kUnary) DPI_RETURN_IF_ERROR(reads("a step's y", s.y));
    if (s.kind == kernels::StepKind::kWhere) DPI_RETURN_IF_ERROR(reads("a step's z", s.z));
    const size_t first = s.param >= 0 && s.n_params > 0 ? static_cast<size_t>(s.param) : c.op().params.size();
    if (s.kind == kernels::StepKind::kUnary)
      DPI_RETURN_IF_ERROR(c.unary_params(s.unary, first, c.out(0).at(-1)));
  }
  return ok_status();
}

std::string elementwise_text(const OpText& t) {
  const auto& e = t.as<kernels::ElementwiseAttrs>();
  std::string s;
  for (int k = 0; k < e.n_steps; ++k) {
    const kernels::ElementwiseStep& step = e.steps[k];
    s += (k > 0 ? "; r" : "r") + std::to_string(e.n_inputs + k) + "=";
    const std::string x = "(r" + std::to_string(step.x), y = ",r" + std::to_string(step.y);
    if (step.kind == kernels::StepKind::kUnary) s += function_text(step.unary) + x + ")";
    if (step.kind == kernels::StepKind::kBinary) s += binary_name(step.binary) + x + y + ")";
    if (step.kind == kernels::StepKind::kWhere) s += "where" + x + y + ",r" + std::to_string(step.z) + ")";
  }
  return s;
}

}  // namespace ops

kernels::ElementwiseArgs elementwise_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::ElementwiseAttrs>(), call.inputs, op.params.data(), output_tensor(op, call, 0)};
}

}  // namespace dpi
