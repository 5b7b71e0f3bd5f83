// Head values go straight into the scores where their producer can write them there.
#include <utility>

#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

bool can_write_directly(const Plan& plan, const Index& index, const std::vector<char>& is_base, int32_t v) {
  const PlanValue& value = value_of(plan, v);
  return value.storage == Storage::kArena && value.space == RowSpace::kItem && value.dims.size() == 1 &&
         index.producer[static_cast<size_t>(v)] >= 0 && !is_base[static_cast<size_t>(v)];
}

/// A copy op from `v` into a new value of item space.
int32_t add_copy(Plan& plan, int32_t v, const std::string& name) {
  const int32_t out = add_value(plan, name, value_of(plan, v).dims, RowSpace::kItem);
  PlanOp op;
  op.kind = OpKind::kUnary;
  op.name = name;
  op.attrs = kernels::UnaryAttrs{};
  op.inputs = {v};
  op.outputs = {out};
  op.params = {-1, -1, -1};
  plan.ops.push_back(std::move(op));
  return out;
}

}  // namespace

Plan place_outputs(Plan plan) {
  const Index index = index_of(plan);
  std::vector<char> is_base(plan.values.size(), 0);
  for (const PlanValue& v : plan.values) {
    if (v.base >= 0) is_base[static_cast<size_t>(v.base)] = 1;
  }
  auto place = [&](int32_t v, size_t head, Storage storage, const char* suffix) {
    if (static_cast<size_t>(v) >= is_base.size() || !can_write_directly(plan, index, is_base, v)) {
      v = add_copy(plan, v, plan.heads[head].name + suffix);
    }
    PlanValue& value = plan.values[static_cast<size_t>(v)];
    value.storage = storage;
    value.column = static_cast<int64_t>(head);
    value.row_stride = 0;
    return v;
  };
  for (size_t h = 0; h < plan.heads.size(); ++h) {
    plan.heads[h].value = place(plan.heads[h].value, h, Storage::kOutput, "/value");
    if (plan.heads[h].logit >= 0)
      plan.heads[h].logit = place(plan.heads[h].logit, h, Storage::kLogit, "/logit");
  }
  return plan;
}

}  // namespace dpi::plan
