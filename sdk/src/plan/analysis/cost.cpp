#include "plan/analysis/cost.hpp"

namespace dpi::plan {
namespace {

double elements(const Plan& plan, int32_t v) {
  if (v < 0) return 0;
  const PlanValue& value = plan.values[static_cast<size_t>(v)];
  return value.is_bags ? 1.0 : static_cast<double>(value.dims.size());
}

double weight_elements(const Plan& plan, const PlanOp& op) {
  double n = 0;
  for (int32_t p : op.params) {
    if (p >= 0) n += static_cast<double>(plan.params[static_cast<size_t>(p)].data.size());
  }
  return n;
}

/// Extent that a matrix product sums over.
double inner_extent(const Plan& plan, const PlanOp& op) {
  const Dims& a = plan.values[static_cast<size_t>(op.inputs[0])].dims;
  const auto& attrs = std::get<kernels::MatMulAttrs>(op.attrs);
  if (a.rank < 2) return static_cast<double>(a.size());
  return static_cast<double>(attrs.trans_a ? a.at(-2) : a.at(-1));
}

}  // namespace

OpWork work_of(const Plan& plan, const PlanOp& op) {
  OpWork w;
  for (int32_t v : op.inputs) w.floats += elements(plan, v);
  double out = 0;
  for (int32_t v : op.outputs) out += elements(plan, v);
  w.floats += out;
  switch (op.kind) {
    case OpKind::kLinear: {
      const double in = static_cast<double>(plan.params[static_cast<size_t>(op.params[0])].dims.at(-1));
      w.flops = in * out;
      break;
    }
    case OpKind::kDense:
      w.flops = elements(plan, op.inputs[0]) * out;
      break;
    case OpKind::kMatMul:
      w.flops = inner_extent(plan, op) * out;
      break;
    case OpKind::kMultiLookup:
      w.floats += out;
      break;
    case OpKind::kCrossV1:
      w.flops = 2 * weight_elements(plan, op);
      break;
    case OpKind::kRecurrent:
      w.flops = weight_elements(plan, op) * 16;
      break;
    default:
      w.flops = w.floats;
      break;
  }
  return w;
}

}  // namespace dpi::plan
