// Mask: 1 where a position of a sequence counts.
#include "ops/names.hpp"
#include "ops/op_checker.hpp"
#include "ops/op_context.hpp"
#include "ops/ops.hpp"
#include "ops/owned_op.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace ops {

using kernels::MaskRule;

Result<Dims> infer_mask(OpContext& c) {
  kernels::MaskAttrs a;
  DPI_ASSIGN_OR_RETURN(a.rule, c.choice<MaskRule>("rule", std::span(kMaskRules).first(3)));
  if (a.rule == MaskRule::kNonzero) {
    DPI_ASSIGN_OR_RETURN(const Dims x, c.floats(0));
    if (x.rank != 2) return c.bad("x is " + text_of(x) + ", rule 'nonzero' expects [T, D]");
    a.max_len = x.d[0];
    c.node().attrs = a;
    return append({}, x.d[0]);
  }
  DPI_ASSIGN_OR_RETURN(const FeatureSpec* f, c.bags(0));
  if (f->kind != FeatureKind::kSequence || f->max_len == 0) {
    return c.bad("feature '" + f->name + "' is not a sequence with max_len > 0");
  }
  a.pad_side = f->pad_side;
  a.pad_id = f->padding();
  a.max_len = f->max_len;
  c.node().attrs = a;
  return append({}, f->max_len);
}

Status check_mask(const OpChecker& c) {
  const auto& a = c.op().as<kernels::MaskAttrs>();
  if (a.rule != kernels::MaskRule::kNonzero) {
    DPI_RETURN_IF_ERROR(c.bags("the input", c.op().input(0)));
    return c.dims("the output", c.out(0), dims_of({a.max_len}));
  }
  DPI_RETURN_IF_ERROR(c.value("x", c.op().input(0), 2));
  return c.dims("the output", c.out(0), dims_of({c.in(0).d[0]}));
}

std::string mask_graph_text(const OpText& t) {
  const auto& a = t.as<kernels::MaskAttrs>();
  const std::string s = field("rule", mask_name(a.rule));
  if (a.rule == MaskRule::kNonzero) return s;
  return s + field("pad_id", int64_t{a.pad_id}) + field("pad_side", pad_side_name(a.pad_side));
}

}  // namespace ops

kernels::MaskArgs mask_args(const OwnedOp& op, const dpi_op_call& call) {
  return {op.as<kernels::MaskAttrs>(), call.inputs[0].bags, call.inputs[0].tensor,
          output_tensor(op, call, 0)};
}

}  // namespace dpi
