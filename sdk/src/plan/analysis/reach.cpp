#include "plan/analysis/reach.hpp"

#include <algorithm>

namespace dpi::plan {

Reach::Reach(const Edges& succs, const std::vector<int32_t>& order)
    : words_((succs.size() + 63) / 64), bits_(succs.size() * words_, 0) {
  for (size_t k = order.size(); k-- > 0;) {
    const int32_t a = order[k];
    uint64_t* mine = bits_.data() + static_cast<size_t>(a) * words_;
    for (int32_t b : succs[static_cast<size_t>(a)]) {
      const uint64_t* theirs = row(b);
      for (size_t w = 0; w < words_; ++w) mine[w] |= theirs[w];
      mine[b >> 6] |= uint64_t{1} << (b & 63);
    }
  }
}

Edges transitive_reduction(const Edges& succs, const Reach& reach) {
  Edges out(succs.size());
  for (size_t a = 0; a < succs.size(); ++a) {
    for (int32_t b : succs[a]) {
      const bool implied =
          std::any_of(succs[a].begin(), succs[a].end(), [&](int32_t k) { return k != b && reach(k, b); });
      if (!implied && std::find(out[a].begin(), out[a].end(), b) == out[a].end()) out[a].push_back(b);
    }
  }
  return out;
}

Edges execution_edges(const Plan& plan) {
  Edges succs(plan.ops.size());
  std::vector<int32_t> last(static_cast<size_t>(plan.n_streams), -1);
  std::vector<int32_t> recorder(static_cast<size_t>(plan.n_events), -1);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    int32_t& previous = last[static_cast<size_t>(op.stream)];
    if (previous >= 0) succs[static_cast<size_t>(previous)].push_back(static_cast<int32_t>(i));
    previous = static_cast<int32_t>(i);
    for (int32_t e : op.waits) {
      const int32_t r = recorder[static_cast<size_t>(e)];
      if (r >= 0) succs[static_cast<size_t>(r)].push_back(static_cast<int32_t>(i));
    }
    if (op.records >= 0) recorder[static_cast<size_t>(op.records)] = static_cast<int32_t>(i);
  }
  return succs;
}

}  // namespace dpi::plan
