// Gather: entries of an axis by computed positions.
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

using kernels::GatherAttrs;

namespace {

/// Dims of the result: index's extent on the axis, elsewhere the two broadcast; nothing when they do not.
std::optional<Dims> gathered(const Dims& x, const Dims& index, int32_t axis) {
  if (x.rank != index.rank) return {};
  return broadcast(with_extent(x, axis, index.d[axis]), index);
}

}  // namespace

Result<Dims> infer_gather(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  DPI_ASSIGN_OR_RETURN(const Dims index, c.floats(1));
  GatherAttrs a;
  DPI_ASSIGN_OR_RETURN(a.axis, c.axis(x, -1));
  const auto dims = gathered(x, index, a.axis);
  if (!dims)
    return c.bad("x is " + text_of(x) + ", index is " + text_of(index) +
                 ", expected as many dims, which broadcast but for axis " + number(a.axis));
  c.node().attrs = a;
  return *dims;
}

Status check_gather(const OpChecker& c) {
  const auto& a = c.op().as<GatherAttrs>();
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.value("index", c.op().input(1), 1));
  DPI_RETURN_IF_ERROR(c.axis(c.in(0), a.axis));
  const auto dims = gathered(c.in(0), c.in(1), a.axis);
  DPI_RETURN_IF_ERROR(
      c.require(dims.has_value(), "index", text_of(c.in(1)), "dims for x " + text_of(c.in(0))));
  return c.dims("the output", c.out(0), *dims);
}

std::string gather_graph_text(const OpText& t) { return field("axis", int64_t{t.as<GatherAttrs>().axis}); }

std::string gather_text(const OpText& t) { return "along axis " + number(t.as<GatherAttrs>().axis); }

}  // namespace ops

kernels::GatherArgs gather_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::GatherAttrs>(), input_tensor(op, call, 0), input_tensor(op, call, 1),
          output_tensor(op, call, 0)};
}

}  // namespace dpi
