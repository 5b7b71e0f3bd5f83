// Linear: a product with a weight, plus bias.
#include "ops/names.hpp"
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"
#include "ops/work.hpp"

namespace dpi {
namespace ops {

using kernels::LinearAxis;

namespace {

Result<Dims> infer_grouped(OpContext& c, const Dims& x, const Dims& w, int64_t groups) {
  if (w.rank != 3 || w.d[0] != groups) {
    return c.bad("weight is " + text_of(w) + ", expected [" + std::to_string(groups) + ", out, in]");
  }
  if (x.rank < 2 || (x.at(-2) != 1 && x.at(-2) != groups) || x.at(-1) != w.d[2]) {
    return c.bad("x is " + text_of(x) + ", expected [.., " + std::to_string(groups) + " or 1, " +
                 std::to_string(w.d[2]) + "] for weight " + text_of(w));
  }
  DPI_RETURN_IF_ERROR(c.use_param("bias", append(append({}, groups), w.d[1])));
  return append(append(drop_last(x, 2), groups), w.d[1]);
}

}  // namespace

Result<Dims> infer_linear(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  kernels::LinearAttrs a;
  DPI_ASSIGN_OR_RETURN(a.groups, c.integer("groups", 1));
  DPI_ASSIGN_OR_RETURN(a.axis, c.choice<LinearAxis>("axis", kLinearAxes, LinearAxis::kLast));
  if (a.groups < 1) return c.bad("groups is " + std::to_string(a.groups) + ", expected at least 1");
  c.node().attrs = a;
  DPI_ASSIGN_OR_RETURN(const Dims w, c.param_shape("weight"));
  DPI_RETURN_IF_ERROR(c.use_param("weight"));
  if (a.groups > 1) {
    if (a.axis == LinearAxis::kField) return c.bad("axis 'field' takes no groups");
    return infer_grouped(c, x, w, a.groups);
  }
  if (w.rank != 2) return c.bad("weight is " + text_of(w) + ", expected [out, in]");
  DPI_RETURN_IF_ERROR(c.use_param("bias", append({}, w.d[0])));
  if (a.axis == LinearAxis::kField) {
    if (x.rank < 2 || x.at(-2) != w.d[1]) {
      return c.bad("weight is " + text_of(w) + ", expected [.., " +
                   (x.rank < 2 ? "n" : std::to_string(x.at(-2))) + "] for x " + text_of(x) +
                   " with axis 'field'");
    }
    return append(append(drop_last(x, 2), w.d[0]), x.at(-1));
  }
  if (x.at(-1) != w.d[1]) {
    return c.bad("weight is " + text_of(w) + ", expected [.., " + std::to_string(x.at(-1)) + "] for x " +
                 text_of(x));
  }
  return append(drop_last(x, 1), w.d[0]);
}

Status check_linear(const OpChecker& c) {
  const auto& a = c.op().as<kernels::LinearAttrs>();
  const Dims& x = c.in(0);
  const bool field = a.axis == kernels::LinearAxis::kField;
  const bool grouped = a.groups > 1;
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), field || grouped ? 2 : 1));
  DPI_RETURN_IF_ERROR(
      c.require(!(field && grouped), "groups with axis field", std::to_string(a.groups), "1"));
  const Dims w = c.op().param(0).dims;
  DPI_RETURN_IF_ERROR(c.require(w.rank == (grouped ? 3 : 2), "weight", text_of(w),
                                grouped ? "[groups, out, in]" : "[out, in]"));
  DPI_RETURN_IF_ERROR(c.param(0, "weight", w.size(), true));
  const int64_t out = w.at(-2);
  const int64_t in = w.at(-1);
  DPI_RETURN_IF_ERROR(c.param(1, "bias", grouped ? a.groups * out : out, false));
  const int axis = field ? -2 : -1;
  const bool once = !is_absent(c.op().input(1)), shared = !is_absent(c.op().input(2));
  if (shared) {
    DPI_RETURN_IF_ERROR(c.value("shared", c.op().input(2), 1));
    DPI_RETURN_IF_ERROR(c.dims("shared", c.in(2), c.out(0)));
  }
  if (once || shared) {
    const char* which = once ? "once" : "shared";
    if (once) DPI_RETURN_IF_ERROR(c.value("once", c.op().input(1), 1));
    DPI_RETURN_IF_ERROR(c.require(!field && !grouped, which, "with groups or axis field", "neither"));
    DPI_RETURN_IF_ERROR(
        c.require(is_absent(c.op().input(3)), "positions", "beside once or shared", "neither of them"));
    const int64_t both = x.at(-1) + (once ? c.in(1).size() : 0);
    DPI_RETURN_IF_ERROR(
        c.require(both == in, "x and once", std::to_string(both), std::to_string(in) + " inputs"));
    return c.dims("the output", c.out(0), with_extent(x, -1, out));
  }
  if (!is_absent(c.op().input(3))) {
    DPI_RETURN_IF_ERROR(
        c.require(!field && !grouped, "positions", "with groups or axis field", "no groups, the last axis"));
    DPI_RETURN_IF_ERROR(c.positions(3, x));
  }
  DPI_RETURN_IF_ERROR(
      c.require(x.at(axis) == in, "x", text_of(x), std::to_string(in) + " inputs, as weight " + text_of(w)));
  Dims y = with_extent(x, axis, out);
  if (grouped) {
    DPI_RETURN_IF_ERROR(
        c.require(w.d[0] == a.groups, "weight", text_of(w), std::to_string(a.groups) + " groups"));
    DPI_RETURN_IF_ERROR(
        c.require(x.at(-2) == 1 || x.at(-2) == a.groups, "x", text_of(x), "1 group or as many as weight"));
    y = with_extent(y, -2, a.groups);
  }
  return c.dims("the output", c.out(0), y);
}

std::string linear_graph_text(const OpText& t) {
  const auto& a = t.as<kernels::LinearAttrs>();
  std::string s = a.groups == 1 ? "" : field("groups", a.groups);
  if (a.axis == LinearAxis::kField) s += field("axis", "field");
  return s;
}

std::string linear_text(const OpText& t) {
  const auto& l = t.as<kernels::LinearAttrs>();
  std::string s = l.groups > 1 ? "groups " + std::to_string(l.groups) : "";
  if (l.axis == LinearAxis::kField) s += s.empty() ? "axis field" : " axis field";
  return s;
}

OpWork linear_work(const OpSizes& s) {
  return {static_cast<double>(s.weight.at(-1)) * s.outputs, s.inputs + s.outputs};
}

}  // namespace ops

kernels::LinearArgs linear_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::LinearAttrs>(),
          input_tensor(op, call, 0),
          op.param(0),
          op.param(1),
          output_tensor(op, call, 0),
          input_tensor(op, call, 1),
          input_tensor(op, call, 2),
          call.row_map,
          call.scratch,
          input_tensor(op, call, 3)};
}

}  // namespace dpi
