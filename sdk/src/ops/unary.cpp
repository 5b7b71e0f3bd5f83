// Unary: element-wise functions of one value, some with parameters per channel.
#include "ops/names.hpp"
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

using kernels::UnaryAttrs;
using kernels::UnaryKind;

namespace {

int n_scalars(UnaryKind kind, bool has_params) {
  switch (kind) {
    case UnaryKind::kLeaky:
    case UnaryKind::kElu:
    case UnaryKind::kPow:
      return 1;
    case UnaryKind::kClamp:
      return 2;
    case UnaryKind::kAffine:
      return has_params ? 0 : 2;
    default:
      return 0;
  }
}

Status read_scalars(OpContext& c, UnaryAttrs* a, const std::string& where) {
  const int n = n_scalars(a->kind, !c.op().params.empty());
  if (n == 0) return c.only_attrs({"kind"}, where);
  if (n == 1) DPI_RETURN_IF_ERROR(c.only_attrs({"kind", "a"}, where));
  DPI_ASSIGN_OR_RETURN(a->a, c.number("a"));
  if (n == 2) {
    DPI_ASSIGN_OR_RETURN(a->b, c.number("b"));
  }
  if (a->kind == UnaryKind::kClamp && a->a > a->b) {
    return c.bad("clamp from " + text_of(a->a) + " to " + text_of(a->b) + " is empty");
  }
  return ok_status();
}

/// Parameters per channel of the last axis, in the order p0, p1, p2 of UnaryAttrs.
Status use_channel_params(OpContext& c, UnaryKind kind, const Dims& x, const std::string& where) {
  const Dims channels = append({}, x.at(-1));
  if (kind == UnaryKind::kAffine && !c.op().params.empty()) {
    DPI_RETURN_IF_ERROR(c.exactly_params({"scale", "shift"}, where));
    DPI_RETURN_IF_ERROR(c.use_param("scale", channels));
    return c.use_param("shift", channels);
  }
  if (kind == UnaryKind::kPrelu) {
    DPI_RETURN_IF_ERROR(c.exactly_params({"slope"}, where));
    DPI_ASSIGN_OR_RETURN(const Dims slope, c.param_shape("slope"));
    return c.use_param("slope", slope == append({}, 1) ? slope : channels);
  }
  if (kind == UnaryKind::kDice) {
    DPI_RETURN_IF_ERROR(c.exactly_params({"alpha", "scale", "shift"}, where));
    DPI_RETURN_IF_ERROR(c.use_param("alpha", channels));
    DPI_RETURN_IF_ERROR(c.use_param("scale", channels));
    return c.use_param("shift", channels);
  }
  return c.exactly_params({}, where);
}

}  // namespace

Result<Dims> infer_unary(OpContext& c) {
  DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
  UnaryAttrs a;
  DPI_ASSIGN_OR_RETURN(a.kind, c.choice<UnaryKind>("kind", kUnaryKinds));
  DPI_ASSIGN_OR_RETURN(const std::string name, c.text("kind"));
  const std::string where = "kind '" + name + "'";
  DPI_RETURN_IF_ERROR(read_scalars(c, &a, where));
  DPI_RETURN_IF_ERROR(use_channel_params(c, a.kind, x, where));
  c.node().params.resize(3, -1);
  c.node().attrs = a;
  return x;
}

Status check_unary(const OpChecker& c) {
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 1));
  DPI_RETURN_IF_ERROR(c.unary_params(c.op().as<kernels::UnaryAttrs>(), 0, c.in(0).at(-1)));
  DPI_RETURN_IF_ERROR(c.positions(1, c.in(0)));
  return c.dims("the output", c.out(0), c.in(0));
}

std::string unary_graph_text(const OpText& t) {
  const auto& a = t.as<UnaryAttrs>();
  std::string s = field("kind", unary_name(a.kind));
  if (a.a != 0 || a.b != 0) s += field("a", a.a);
  if (a.b != 0) s += field("b", a.b);
  return s;
}

std::string unary_text(const OpText& t) { return function_text(t.as<UnaryAttrs>()); }

}  // namespace ops

kernels::UnaryArgs unary_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::UnaryAttrs>(), input_tensor(op, call, 0), op.param(0), op.param(1), op.param(2),
          output_tensor(op, call, 0),   input_tensor(op, call, 1)};
}

}  // namespace dpi
