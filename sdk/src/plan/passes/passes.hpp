// The passes in the order in which make_plan runs them. Each takes a plan and gives the next; each may refuse
// to act, never change what the plan computes (folds: up to rounding, FORMAT.md defines the exact value).
//
//   lower > mark_tiered > simplify > recognise_fm > recognise_cross_v1 > recognise_co_action >
//   recognise_attention > recognise_pairs > recognise_cin > recognise_mixture > fold_affine > hoist_history >
//   split_fm > turn_dot > fuse_tail (with scalars: LR, FM, cross v1 in closed form) > fold_cin > fold_numeric
//   > fold_target > fuse_dense > merge_dense > hoist_positions > hoist_shared > merge_dense > count_positions
//   > fuse_elementwise > fuse_lookup > place_outputs > place_tiered > narrow_activations > schedule
#pragma once

#include "plan/analysis/ir.hpp"

namespace dpi::plan {

/// Graph to plan, one op per node; Input and Const nodes become values.
Plan lower(const Graph& graph);

/// Tables of the bundle, by name, whose rows the store moves. Fails when nothing looks one up.
Result<Plan> mark_tiered(Plan plan, const PlanOptions& options);

/// Constants, identities, and broadcasts side by side.
Result<Plan> simplify(Plan plan);

Result<Plan> recognise_fm(Plan plan);
Result<Plan> recognise_cross_v1(Plan plan);
/// CAN: powers of a history, products with weights out of a looked-up row, pooling.
Result<Plan> recognise_co_action(Plan plan);
/// Softmax between two products, with the views around them.
Result<Plan> recognise_attention(Plan plan);
/// A square product of which one side of the diagonal is selected.
Result<Plan> recognise_pairs(Plan plan);
/// A field-wise Linear over the products of every two fields. fold: those of fields with themselves count
/// once.
Result<Plan> recognise_cin(Plan plan, bool fold);
/// Rows times a weight each, added up (experts under a gate): a product.
Result<Plan> recognise_mixture(Plan plan);

/// Channel-wise affine maps (BatchNorm) into the Linear before or after them, where their shifts are light.
Result<Plan> fold_affine(Plan plan);
/// x_j v_j in front of Linear layers: the raw x_j and one column W v_j instead.
Result<Plan> fold_numeric(Plan plan);
/// A Linear over [q, k, q - k, q k] at every place of a history: the columns of the difference go to those of
/// q and k, and q is multiplied once per row.
Result<Plan> fold_target(Plan plan);

/// Positions of a shared history under a causal or candidate mask are computed once per user.
Result<Plan> hoist_history(Plan plan);
/// FM's sums over shared rows are made once per user.
Result<Plan> split_fm(Plan plan);
/// <u, W h + b> = <W^T u, h> + <b, u>, where u is of shared rows and h of items.
Result<Plan> turn_dot(Plan plan);

/// fold: linear terms move into the lookup's channels, the last layer is split per branch, cross v1 takes its
/// closed form. sum_shared: terms of shared rows are summed once per user.
Result<Plan> fuse_tail(Plan plan, bool fold, bool sum_shared);
/// Maps that only a Tail adds up are one map.
Result<Plan> fold_cin(Plan plan);
Result<Plan> fuse_dense(Plan plan);
Result<Plan> merge_dense(Plan plan);
/// Products with columns of shared rows are made once per user and added to the items' products.
Result<Plan> hoist_shared(Plan plan);
/// The same of a layer over positions, after fold_target.
Result<Plan> hoist_positions(Plan plan);
/// Layers and attention over a padded sequence leave out the positions that nothing reads.
Result<Plan> count_positions(Plan plan);
Result<Plan> fuse_elementwise(Plan plan);
Result<Plan> fuse_lookup(Plan plan, int32_t column_align);

/// Gives each head value its place in the scores (Storage::kOutput, kLogit), with a copy where its producer
/// cannot write there.
Plan place_outputs(Plan plan);

/// Lookups in tiered tables read places. Last of what numbers tables or compares the ids of lookups.
Plan place_tiered(Plan plan);

/// Buffers that only lookup, Dense, element-wise ops, row broadcasts and Tail touch become `type` (kF16
/// or kBF16; kF32: nothing changes).
Plan narrow_activations(Plan plan, kernels::DType type);

/// Branches, levels, streams, events and the issue order.
Result<Plan> schedule(Plan plan, const PlanOptions& options);

}  // namespace dpi::plan
