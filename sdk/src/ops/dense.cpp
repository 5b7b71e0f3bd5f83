// Dense: a product with a weight, plus bias, a shared part, function, factor and residual.
#include "ops/op_checker.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"
#include "ops/work.hpp"

namespace dpi {
namespace ops {

Status check_dense(const OpChecker& c) {
  const auto& a = c.op().as<kernels::DenseAttrs>();
  const Dims w = c.op().param(0).dims;
  DPI_RETURN_IF_ERROR(c.require(w.rank == 2, "weight", text_of(w), "[out, in]"));
  DPI_RETURN_IF_ERROR(c.param(0, "weight", w.size(), true));
  DPI_RETURN_IF_ERROR(c.param(1, "bias", w.d[0], false));
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(
      c.require(c.in(0).size() == w.d[1], "x", text_of(c.in(0)), number(w.d[1]) + " elements"));
  DPI_RETURN_IF_ERROR(
      c.require(c.out(0).size() == w.d[0], "the output", text_of(c.out(0)), number(w.d[0]) + " elements"));
  for (size_t i = 1; i <= 3; ++i) {
    if (is_absent(c.op().input(i))) continue;
    const char* what = i == 1 ? "mul" : i == 2 ? "add" : "shared";
    DPI_RETURN_IF_ERROR(c.value(what, c.op().input(i), 1));
    DPI_RETURN_IF_ERROR(
        c.require(c.in(i).size() == w.d[0], what, text_of(c.in(i)), number(w.d[0]) + " elements"));
  }
  int64_t next = 0;
  for (int32_t s = 0; s < a.n_segments; ++s) {
    const kernels::DenseSegment& g = a.segments[s];
    DPI_RETURN_IF_ERROR(
        c.require(g.begin == next && g.end >= g.begin, "a segment's begin", number(g.begin), number(next)));
    DPI_RETURN_IF_ERROR(c.unary_params(g.act, 2, w.d[0]));
    next = g.end;
  }
  return c.require(next == w.d[0], "the end of the last segment", number(next), number(w.d[0]));
}

std::string dense_text(const OpText& t) {
  std::string s;
  for (const kernels::DenseSegment& g : t.arrays.segments) {
    if (!s.empty()) s += " | ";
    s += "[" + std::to_string(g.begin) + "," + std::to_string(g.end) + ") " + function_text(g.act);
  }
  if (t.inputs[1] >= 0) s += " *mul";
  if (t.inputs[2] >= 0) s += " +add";
  if (t.inputs.size() > 3 && t.inputs[3] >= 0) s += " +shared";
  return s;
}

OpWork dense_work(const OpSizes& s) { return {s.first_input * s.outputs, s.inputs + s.outputs}; }

}  // namespace ops

kernels::DenseArgs dense_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::DenseAttrs>(),
          input_tensor(op, call, 0),
          op.param(0),
          op.param(1),
          op.param(2),
          op.param(3),
          op.param(4),
          input_tensor(op, call, 1),
          input_tensor(op, call, 2),
          input_tensor(op, call, 3),
          call.row_map,
          nullptr,
          call.scratch,
          output_tensor(op, call, 0)};
}

}  // namespace dpi
