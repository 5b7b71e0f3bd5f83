// Concat: values side by side along one axis.
#include "base/checked.hpp"
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

Result<Dims> infer_concat(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(Dims y, c.floats(0));
  const Dims first = y;
  DPI_ASSIGN_OR_RETURN(const int32_t axis, c.axis(first, -1));
  c.node().attrs = kernels::ConcatAttrs{axis};
  for (size_t i = 1; i < c.n_inputs(); ++i) {
    DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(i));
    Dims rest = x;
    if (rest.rank == first.rank) rest.d[axis] = first.d[axis];
    if (!(rest == first)) {
      return c.bad("input " + std::to_string(i) + " ('" + c.op().inputs[i] + "') is " + text_of(x) +
                   ", input 0 is " + text_of(first) + ": only axis " + std::to_string(axis) + " may differ");
    }
    const auto sum = checked_add(y.d[axis], x.d[axis]);
    if (!sum) return c.bad("axis " + std::to_string(axis) + " grows beyond every limit");
    y.d[axis] = *sum;
  }
  return y;
}

Status check_concat(const OpChecker& c) {
  const int axis = c.op().as<kernels::ConcatAttrs>().axis;
  DPI_RETURN_IF_ERROR(c.value("the output", c.op().output(0), 1));
  DPI_RETURN_IF_ERROR(c.axis(c.out(0), axis));
  int64_t total = 0;
  for (size_t i = 0; i < c.op().inputs.size(); ++i) {
    const std::string what = "input " + std::to_string(i);
    DPI_RETURN_IF_ERROR(c.value(what.c_str(), c.op().input(i), 1));
    DPI_RETURN_IF_ERROR(c.require(c.in(i).rank == c.out(0).rank, what.c_str(), text_of(c.in(i)),
                                  "the rank of " + text_of(c.out(0))));
    DPI_RETURN_IF_ERROR(c.dims(what.c_str(), c.in(i), with_extent(c.out(0), axis, c.in(i).d[axis])));
    total += c.in(i).d[axis];
  }
  return c.require(total == c.out(0).d[axis], "the output", text_of(c.out(0)),
                   std::to_string(total) + " on the axis");
}

std::string concat_graph_text(const OpText& t) {
  return field("axis", int64_t{t.as<kernels::ConcatAttrs>().axis});
}

std::string concat_text(const OpText& t) {
  return "axis " + std::to_string(t.as<kernels::ConcatAttrs>().axis);
}

}  // namespace ops

kernels::ConcatArgs concat_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::ConcatAttrs>(), call.inputs, static_cast<int64_t>(op.inputs.size()),
          output_tensor(op, call, 0)};
}

}  // namespace dpi
