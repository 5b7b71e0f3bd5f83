// LayerNorm: normalises over the last axis.
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

Result<Dims> infer_layer_norm(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  kernels::LayerNormAttrs a;
  DPI_ASSIGN_OR_RETURN(a.eps, c.number("eps", 1e-5f));
  if (!(a.eps >= 0)) return c.bad("eps is " + text_of(a.eps) + ", expected 0 or more");
  c.node().attrs = a;
  for (const char* role : {"gamma", "beta"}) {
    Dims expected = append({}, x.at(-1));
    if (c.has_param(role) && x.rank >= 2) {
      DPI_ASSIGN_OR_RETURN(const Dims shape, c.param_shape(role));
      if (shape.rank == 2) expected = append(append({}, x.at(-2)), x.at(-1));
    }
    DPI_RETURN_IF_ERROR(c.use_param(role, expected));
  }
  return x;
}

Status check_layer_norm(const OpChecker& c) {
  const Dims& x = c.in(0);
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  for (size_t i = 0; i < 2; ++i) {
    const Dims p = c.op().param(i).dims;
    const int64_t n = p.rank == 2 && x.rank >= 2 ? x.at(-2) * x.at(-1) : x.at(-1);
    DPI_RETURN_IF_ERROR(c.param(i, i == 0 ? "gamma" : "beta", n, false));
  }
  DPI_RETURN_IF_ERROR(c.positions(1, x));
  return c.dims("the output", c.out(0), x);
}

std::string layer_norm_graph_text(const OpText& t) {
  return field("eps", t.as<kernels::LayerNormAttrs>().eps);
}

}  // namespace ops

kernels::LayerNormArgs layer_norm_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::LayerNormAttrs>(), input_tensor(op, call, 0), op.param(0), op.param(1),
          output_tensor(op, call, 0),       input_tensor(op, call, 1)};
}

}  // namespace dpi
