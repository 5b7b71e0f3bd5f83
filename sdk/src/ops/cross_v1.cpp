// CrossV1: all layers of DCN's cross network, step by step; CrossV1Closed: the same from per-row scalars.
#include "ops/op_checker.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"
#include "ops/work.hpp"

namespace dpi {
namespace ops {

Status check_cross_v1(const OpChecker& c) {
  const int64_t layers = c.op().as<kernels::CrossV1Attrs>().layers;
  DPI_RETURN_IF_ERROR(c.require(layers >= 1, "layers", number(layers), "1 or more"));
  DPI_RETURN_IF_ERROR(c.value("x0", c.op().input(0), 1));
  const int64_t n = c.in(0).size();
  DPI_RETURN_IF_ERROR(c.param(0, "w", layers * n, true));
  DPI_RETURN_IF_ERROR(c.param(1, "b", layers * n, true));
  return c.require(c.out(0).size() == n, "the output", text_of(c.out(0)), number(n) + " elements");
}

Status check_cross_v1_closed(const OpChecker& c) {
  const int64_t layers = c.op().as<kernels::CrossV1Attrs>().layers;
  DPI_RETURN_IF_ERROR(c.require(layers >= 1, "layers", number(layers), "1 or more"));
  DPI_RETURN_IF_ERROR(c.value("p", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(
      c.require(c.in(0).size() == layers + 1, "p", text_of(c.in(0)), number(layers + 1) + " elements"));
  DPI_RETURN_IF_ERROR(c.param(0, "k", layers, true));
  DPI_RETURN_IF_ERROR(c.param(1, "y0", 1, true));
  return c.require(c.out(0).size() == 1, "the output", text_of(c.out(0)), "1 element");
}

std::string cross_v1_text(const OpText& t) {
  return std::to_string(t.as<kernels::CrossV1Attrs>().layers) + " layers";
}

OpWork cross_v1_work(const OpSizes& s) { return {2 * s.weights, s.inputs + s.outputs}; }

}  // namespace ops

kernels::CrossV1Args cross_v1_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::CrossV1Attrs>(), input_tensor(op, call, 0), op.param(0), op.param(1),
          output_tensor(op, call, 0)};
}

kernels::CrossV1ClosedArgs cross_v1_closed_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::CrossV1Attrs>(), input_tensor(op, call, 0), op.param(0), op.param(1),
          output_tensor(op, call, 0)};
}

}  // namespace dpi
