// Recurrent: GRU and its attention forms.
#include "ops/names.hpp"
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"
#include "ops/work.hpp"

namespace dpi {
namespace ops {

using kernels::RecurrentAttrs;
using kernels::RecurrentKind;
using kernels::RecurrentOutput;
using kernels::ResetGate;

namespace {

Result<RecurrentAttrs> read_attrs(const OpContext& c) {
  RecurrentAttrs a;
  DPI_ASSIGN_OR_RETURN(a.kind, c.choice<RecurrentKind>("kind", kRecurrentKinds));
  DPI_ASSIGN_OR_RETURN(a.reset, c.choice<ResetGate>("reset", kResetGates));
  DPI_ASSIGN_OR_RETURN(a.output, c.choice<RecurrentOutput>("output", kRecurrentOutputs));
  return a;
}

}  // namespace

Result<Dims> infer_recurrent(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const RecurrentAttrs a, read_attrs(c));
  c.node().attrs = a;
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  if (x.rank != 2) return c.bad("x is " + text_of(x) + ", expected [T, i]");
  const size_t expected_inputs = a.kind == RecurrentKind::kGru ? 2 : 3;
  if (c.n_inputs() != expected_inputs) {
    return c.bad(std::to_string(c.n_inputs()) + " inputs, this kind takes " +
                 std::to_string(expected_inputs));
  }
  const Dims steps = append({}, x.d[0]);
  for (size_t i = 1; i < c.n_inputs(); ++i) {
    DPI_ASSIGN_OR_RETURN(const Dims per_step, c.floats(i));
    if (!(per_step == steps)) {
      return c.bad(std::string(i == 1 ? "mask" : "att") + " is " + text_of(per_step) + ", expected " +
                   text_of(steps));
    }
  }
  DPI_ASSIGN_OR_RETURN(const Dims w, c.param_shape("w_hidden"));
  const bool is_square = w.rank == 2 && w.d[0] % 3 == 0 && w.d[0] / 3 == w.d[1];
  if (!is_square) return c.bad("w_hidden is " + text_of(w) + ", expected [3 m, m]");
  DPI_RETURN_IF_ERROR(c.use_param("w_input", append(append({}, w.d[0]), x.d[1])));
  DPI_RETURN_IF_ERROR(c.use_param("w_hidden"));
  DPI_RETURN_IF_ERROR(c.use_param("b_input", append({}, w.d[0])));
  DPI_RETURN_IF_ERROR(c.use_param("b_hidden", append({}, w.d[0])));
  if (a.output == RecurrentOutput::kAll) return append(steps, w.d[1]);
  return append({}, w.d[1]);
}

Status check_recurrent(const OpChecker& c) {
  const auto& a = c.op().as<kernels::RecurrentAttrs>();
  const Dims& x = c.in(0);
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 2));
  DPI_RETURN_IF_ERROR(c.require(x.rank == 2, "x", text_of(x), "[T, i]"));
  DPI_RETURN_IF_ERROR(c.value("mask", c.op().input(1), 1));
  DPI_RETURN_IF_ERROR(c.dims("mask", c.in(1), dims_of({x.d[0]})));
  if (a.kind != kernels::RecurrentKind::kGru) DPI_RETURN_IF_ERROR(c.dims("att", c.in(2), dims_of({x.d[0]})));
  DPI_RETURN_IF_ERROR(c.value("the output", c.op().output(0), 1));
  const int64_t m = c.out(0).at(-1);
  DPI_RETURN_IF_ERROR(c.param(0, "w_input", 3 * m * x.d[1], true));
  DPI_RETURN_IF_ERROR(c.param(1, "w_hidden", 3 * m * m, true));
  DPI_RETURN_IF_ERROR(c.param(2, "b_input", 3 * m, false));
  DPI_RETURN_IF_ERROR(c.param(3, "b_hidden", 3 * m, false));
  const bool all = a.output == kernels::RecurrentOutput::kAll;
  return c.dims("the output", c.out(0), all ? dims_of({x.d[0], m}) : dims_of({m}));
}

std::string recurrent_graph_text(const OpText& t) {
  const auto& a = t.as<RecurrentAttrs>();
  return field("kind", recurrent_name(a.kind)) +
         field("reset", a.reset == ResetGate::kAfter ? "after" : "before") +
         field("output", a.output == RecurrentOutput::kLast ? "last" : "all");
}

OpWork recurrent_work(const OpSizes& s) { return {s.weights * 16, s.inputs + s.outputs}; }

}  // namespace ops

kernels::RecurrentArgs recurrent_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::RecurrentAttrs>(),
          input_tensor(op, call, 0),
          input_tensor(op, call, 1),
          input_tensor(op, call, 2),
          op.param(0),
          op.param(1),
          op.param(2),
          op.param(3),
          call.scratch,
          output_tensor(op, call, 0)};
}

}  // namespace dpi
