#include "plan/analysis/cost.hpp"

#include "ops/table.hpp"
#include "plan/analysis/ir.hpp"

namespace dpi::plan {
namespace {

double elements(const Plan& plan, int32_t v) {
  if (v < 0) return 0;
  const PlanValue& value = value_of(plan, v);
  return value.is_bags ? 1.0 : static_cast<double>(value.dims.size());
}

}  // namespace

OpWork work_of(const Plan& plan, const PlanOp& op) {
  ops::OpSizes s{.attrs = op.attrs, .x = {}, .weight = {}};
  for (const int32_t v : op.inputs) s.inputs += elements(plan, v);
  for (const int32_t v : op.outputs) s.outputs += elements(plan, v);
  for (const int32_t p : op.params) {
    if (p >= 0) s.weights += static_cast<double>(param_of(plan, p).dims.size());  // its data may be gone
  }
  if (!op.inputs.empty() && op.inputs[0] >= 0) {
    s.x = value_of(plan, op.inputs[0]).dims;
    s.first_input = elements(plan, op.inputs[0]);
  }
  if (!op.params.empty() && op.params[0] >= 0) s.weight = param_of(plan, op.params[0]).dims;
  return form_of(op.kind).work(s);
}

}  // namespace dpi::plan
