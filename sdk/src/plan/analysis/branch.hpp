// Branches, levels and longest remaining paths of a plan's ops: what the schedules order by.
#pragma once

#include "plan/analysis/reach.hpp"

namespace dpi::plan {

struct Branches {
  Edges succs;  // transitive reduction of the dependencies
  Edges preds;
  std::vector<int32_t> level;     // longest path from a root, in ops
  std::vector<double> remaining;  // cost of the longest path to the end, own cost included
  std::vector<int32_t> ops_left;  // the longest path to the end in ops, itself included
  std::vector<double> finished;   // cost of the longest path from a root, own cost included
  std::vector<int32_t> branch;    // of an op: ops in a row without fork or join are one; numbered in op order
  std::vector<double> branch_floats;  // per branch: floats touched per row
};

/// Ops must be in topological order.
Branches find_branches(const Plan& plan, const Edges& succs, const Reach& reach);

}  // namespace dpi::plan
