// Reduce: sum, mean, max or sum of squares along one axis, with an optional mask.
#include "ops/names.hpp"
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

using kernels::ReduceKind;

Result<Dims> infer_reduce(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  kernels::ReduceAttrs a;
  DPI_ASSIGN_OR_RETURN(a.kind, c.choice<ReduceKind>("kind", kReduceKinds));
  DPI_ASSIGN_OR_RETURN(a.axis, c.axis(x, -1));
  DPI_ASSIGN_OR_RETURN(const bool keepdim, c.flag("keepdim", false));
  DPI_ASSIGN_OR_RETURN(a.eps, c.number("eps", 0.0f));
  DPI_ASSIGN_OR_RETURN(a.empty, c.number("empty", 0.0f));
  a.keepdim = keepdim ? 1 : 0;
  c.node().attrs = a;
  if (x.rank == 1 && !keepdim) return c.bad("x is " + text_of(x) + ": a value of one dim needs keepdim");
  if (c.n_inputs() == 2) {
    DPI_ASSIGN_OR_RETURN(const Dims mask, c.floats(1));
    const Dims expected = drop_last(x, x.rank - a.axis - 1);
    if (!(mask == expected)) return c.bad("mask is " + text_of(mask) + ", expected " + text_of(expected));
  }
  Dims y;
  for (int i = 0; i < x.rank; ++i) {
    if (i != a.axis) y = append(y, x.d[i]);
    if (i == a.axis && keepdim) y = append(y, 1);
  }
  return y;
}

Status check_reduce(const OpChecker& c) {
  const auto& a = c.op().as<kernels::ReduceAttrs>();
  const Dims& x = c.in(0);
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.axis(x, a.axis));
  if (!is_absent(c.op().input(1))) {
    DPI_RETURN_IF_ERROR(c.value("mask", c.op().input(1), 1));
    DPI_RETURN_IF_ERROR(c.dims("mask", c.in(1), up_to_axis(x, a.axis)));
  }
  return c.dims("the output", c.out(0), a.keepdim != 0 ? with_extent(x, a.axis, 1) : without_axis(x, a.axis));
}

std::string reduce_graph_text(const OpText& t) {
  const auto& a = t.as<kernels::ReduceAttrs>();
  std::string s = field("kind", reduce_name(a.kind)) + field("axis", int64_t{a.axis});
  if (a.keepdim != 0) s += " keepdim";
  if (a.eps != 0) s += field("eps", a.eps);
  if (a.empty != 0) s += field("empty", a.empty);
  return s;
}

std::string reduce_text(const OpText& t) {
  const auto& r = t.as<kernels::ReduceAttrs>();
  return std::string(reduce_name(r.kind)) + " axis " + std::to_string(r.axis) +
         (r.keepdim != 0 ? " keepdim" : "");
}

}  // namespace ops

kernels::ReduceArgs reduce_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::ReduceAttrs>(), input_tensor(op, call, 0), input_tensor(op, call, 1),
          output_tensor(op, call, 0)};
}

}  // namespace dpi
