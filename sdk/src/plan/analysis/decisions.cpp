#include "plan/analysis/decisions.hpp"

#include <algorithm>

namespace dpi::plan {
namespace {

bool compares(kernels::BinaryKind kind) {
  return kind >= kernels::BinaryKind::kLt && kind <= kernels::BinaryKind::kNe;
}

bool decides(const kernels::ElementwiseStep& step) {
  if (step.kind == kernels::StepKind::kBinary) return compares(step.binary);
  return step.kind == kernels::StepKind::kUnary && step.unary.kind == kernels::UnaryKind::kSign;
}

bool decides(const PlanOp& op) {
  if (op.kind == OpKind::kTopK) return true;
  if (op.kind == OpKind::kBinary) return compares(std::get<kernels::BinaryAttrs>(op.attrs).kind);
  if (op.kind == OpKind::kUnary)
    return std::get<kernels::UnaryAttrs>(op.attrs).kind == kernels::UnaryKind::kSign;
  if (op.kind != OpKind::kElementwise) return false;
  const auto& e = std::get<kernels::ElementwiseAttrs>(op.attrs);
  return std::any_of(e.steps, e.steps + e.n_steps,
                     [](const kernels::ElementwiseStep& s) { return decides(s); });
}

}  // namespace

bool rounds_alone(OpKind kind) {
  return kind == OpKind::kUnary || kind == OpKind::kBinary || kind == OpKind::kWhere ||
         kind == OpKind::kElementwise || kind == OpKind::kView || kind == OpKind::kConcat ||
         kind == OpKind::kBroadcastRows || kind == OpKind::kGather;
}

std::vector<char> ahead_of_decisions(const Plan& p, const Index& ix) {
  std::vector<char> ahead(p.values.size(), 0);
  std::vector<int32_t> left;
  const auto mark = [&](int32_t v) {
    if (v < 0 || ahead[static_cast<size_t>(v)] != 0) return;
    ahead[static_cast<size_t>(v)] = 1;
    left.push_back(v);
  };
  for (const PlanOp& op : p.ops) {
    if (op.kind == OpKind::kGather) mark(op.inputs[1]);
    if (!decides(op)) continue;
    for (const int32_t v : op.inputs) mark(v);
  }
  while (!left.empty()) {
    const PlanOp* from = producer_of(p, ix, left.back());
    left.pop_back();
    if (from == nullptr || !rounds_alone(from->kind)) continue;
    for (const int32_t v : from->inputs) mark(v);
  }
  return ahead;
}

}  // namespace dpi::plan
