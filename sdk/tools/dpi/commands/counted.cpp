#include "sdk/tools/dpi/commands/counted.hpp"

#include "plan/analysis/cost.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"
#include "sdk/tools/dpi/shared/planned.hpp"

namespace dpi::tool {

namespace {

/// True for ops that only move values to their places; they count as no work.
bool only_moves(OpKind kind) {
  return kind == OpKind::kBroadcastRows || kind == OpKind::kConcat || kind == OpKind::kView;
}

}  // namespace

double CountedWork::speedup(int64_t rows, int64_t users) const {
  const auto n = static_cast<double>(rows);
  return n * (item + shared) / (n * item + static_cast<double>(users) * shared);
}

CountedWork counted_work(const std::string& bundle, const CommonFlags& flags) {
  const ModelOptions options = parse_options(flags);
  const std::unique_ptr<Bundle> opened = open_bundle(bundle, options);
  const Plan plan = take(make_plan(graph_of(opened.get()), plan_options(options)));
  CountedWork work;
  for (const PlanOp& op : plan.ops) {
    if (only_moves(op.kind)) continue;
    RowSpace space = RowSpace::kConstant;
    for (const int32_t v : op.outputs) {
      if (v >= 0) space = plan.values[static_cast<size_t>(v)].space;
    }
    const double flops = plan::work_of(plan, op).flops;
    if (space == RowSpace::kItem) work.item += flops;
    if (space == RowSpace::kShared) work.shared += flops;
  }
  return work;
}

}  // namespace dpi::tool
