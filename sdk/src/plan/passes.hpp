// The passes in the order in which make_plan runs them. Each takes a plan and gives the next; each may refuse
// to act, never change what the plan computes (folds: up to rounding, FORMAT.md defines the exact value).
//
//   lower > simplify > fold_affine > hoist_broadcast > recognise_fm > recognise_cross_v1 > fuse_tail (fold:
//   scalars) > fold_numeric > fuse_dense > merge_dense > fuse_elementwise > fuse_lookup (layout) >
//   place_outputs > schedule
#pragma once

#include "plan/ir.hpp"

namespace dpi::plan {

/// Graph to plan, one op per node; Input and Const nodes become values.
Plan lower(const Graph& graph);

/// Gives each head value its place in the scores (Storage::kOutput, kLogit), with a copy where its producer
/// cannot write there.
Plan place_outputs(Plan plan);

/// Branches, levels, streams, events and the issue order.
Result<Plan> schedule(Plan plan, const PlanOptions& options);

}  // namespace dpi::plan
