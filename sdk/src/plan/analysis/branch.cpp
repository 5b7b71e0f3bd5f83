#include "plan/analysis/branch.hpp"

#include <algorithm>

#include "plan/analysis/cost.hpp"

namespace dpi::plan {
namespace {

/// A branch goes on while an op has one successor that has one predecessor.
void number_branches(const Plan& plan, Branches& b) {
  const size_t n = plan.ops.size();
  b.branch.assign(n, -1);
  int32_t next = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto& preds = b.preds[i];
    const bool goes_on = preds.size() == 1 && b.succs[static_cast<size_t>(preds[0])].size() == 1;
    b.branch[i] = goes_on ? b.branch[static_cast<size_t>(preds[0])] : next++;
  }
  b.branch_floats.assign(static_cast<size_t>(next), 0);
  for (size_t i = 0; i < n; ++i) {
    b.branch_floats[static_cast<size_t>(b.branch[i])] += work_of(plan, plan.ops[i]).floats;
  }
}

}  // namespace

Branches find_branches(const Plan& plan, const Edges& succs, const Reach& reach) {
  const size_t n = plan.ops.size();
  Branches b;
  b.succs = transitive_reduction(succs, reach);
  b.preds.resize(n);
  b.level.assign(n, 0);
  b.remaining.assign(n, 0);
  b.ops_left.assign(n, 0);
  b.finished.assign(n, 0);
  for (size_t i = 0; i < n; ++i) {
    for (int32_t s : b.succs[i]) b.preds[static_cast<size_t>(s)].push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < n; ++i) {
    double before = 0;
    for (int32_t p : b.preds[i]) {
      b.level[i] = std::max(b.level[i], b.level[static_cast<size_t>(p)] + 1);
      before = std::max(before, b.finished[static_cast<size_t>(p)]);
    }
    b.finished[i] = before + work_of(plan, plan.ops[i]).time();
  }
  for (size_t i = n; i-- > 0;) {
    double after = 0;
    for (int32_t s : b.succs[i]) {
      after = std::max(after, b.remaining[static_cast<size_t>(s)]);
      b.ops_left[i] = std::max(b.ops_left[i], b.ops_left[static_cast<size_t>(s)]);
    }
    ++b.ops_left[i];
    b.remaining[i] = after + work_of(plan, plan.ops[i]).time();
  }
  number_branches(plan, b);
  return b;
}

}  // namespace dpi::plan
