// Softmax: along one axis, with an optional mask.
#include "ops/names.hpp"
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

using kernels::SoftmaxMask;

namespace {

/// A mask has the dims of x up to and including the axis; any other mask broadcasts to x at the right.
Status check_softmax_mask(const OpContext& c, const Dims& x, const Dims& mask, int32_t axis) {
  if (mask == drop_last(x, x.rank - axis - 1)) return ok_status();
  const auto spread = broadcast(x, mask);
  if (spread && *spread == x) return ok_status();
  return c.bad("mask is " + text_of(mask) + ", expected dims that broadcast to x " + text_of(x));
}

}  // namespace

Result<Dims> infer_softmax(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  kernels::SoftmaxAttrs a;
  DPI_ASSIGN_OR_RETURN(a.axis, c.axis(x, -1));
  DPI_ASSIGN_OR_RETURN(a.mask_mode, c.choice<SoftmaxMask>("mask_mode", kSoftmaxMasks, SoftmaxMask::kNone));
  DPI_ASSIGN_OR_RETURN(a.value, c.number("value", -1e9f));
  c.node().attrs = a;
  if ((a.mask_mode != SoftmaxMask::kNone) != (c.n_inputs() == 2)) {
    return c.bad(a.mask_mode == SoftmaxMask::kNone ? "a mask with mask_mode 'none'"
                                                   : "mask_mode without a mask input");
  }
  if (c.n_inputs() == 2) {
    DPI_ASSIGN_OR_RETURN(const Dims mask, c.floats(1));
    DPI_RETURN_IF_ERROR(check_softmax_mask(c, x, mask, a.axis));
  }
  return x;
}

Status check_softmax(const OpChecker& c) {
  const auto& a = c.op().as<kernels::SoftmaxAttrs>();
  const Dims &x = c.in(0), &mask = c.in(1);
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.axis(x, a.axis));
  if (a.mask_mode != kernels::SoftmaxMask::kNone) {
    DPI_RETURN_IF_ERROR(c.value("mask", c.op().input(1), 1));
    const bool fits = mask == up_to_axis(x, a.axis) || broadcasts_to(mask, x);
    DPI_RETURN_IF_ERROR(c.require(fits, "mask", text_of(mask),
                                  text_of(up_to_axis(x, a.axis)) + ", or dims that broadcast to x"));
  }
  return c.dims("the output", c.out(0), x);
}

std::string softmax_graph_text(const OpText& t) {
  const auto& a = t.as<kernels::SoftmaxAttrs>();
  std::string s = field("axis", int64_t{a.axis});
  if (a.mask_mode == SoftmaxMask::kNone) return s;
  return s + field("mask_mode", softmax_mask_name(a.mask_mode)) + field("value", a.value);
}

}  // namespace ops

kernels::SoftmaxArgs softmax_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::SoftmaxAttrs>(), input_tensor(op, call, 0), input_tensor(op, call, 1),
          output_tensor(op, call, 0)};
}

}  // namespace dpi
