// Tail: the last sums of a model: dot products of all branches, scalars and bias, then a function.
#include "ops/op_checker.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

Status check_tail(const OpChecker& c) {
  for (size_t i = 0; i < c.op().inputs.size(); ++i) {
    DPI_RETURN_IF_ERROR(c.value("an input", c.op().input(i), 1));
    const int64_t n = c.in(i).size();
    const bool dotted = c.op().param(i).data != nullptr;
    DPI_RETURN_IF_ERROR(
        c.require(dotted || n == 1, "an input without weight", text_of(c.in(i)), "1 element"));
    DPI_RETURN_IF_ERROR(c.param(i, "weight", n, false));
  }
  for (size_t i = 0; i < 2; ++i) {
    if (is_absent(c.op().output(i))) continue;
    DPI_RETURN_IF_ERROR(
        c.require(c.out(i).size() == 1, i == 0 ? "logit" : "value", text_of(c.out(i)), "1 element"));
  }
  return c.unary_params(c.op().as<kernels::TailAttrs>().act, c.op().params.size(), 1);
}

std::string tail_text(const OpText& t) { return function_text(t.as<kernels::TailAttrs>().act); }

}  // namespace ops

kernels::TailArgs tail_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::TailAttrs>(),
          call.inputs,
          op.params.data(),
          static_cast<int64_t>(op.inputs.size()),
          call.rows,
          output_tensor(op, call, 0),
          output_tensor(op, call, 1)};
}

}  // namespace dpi
