// Finds the pieces that a matrix of a row is put together from, seen through Concat and reshapes.
#pragma once

#include "plan/analysis/ir.hpp"

namespace dpi::plan {

/// The values that stand side by side in v, in order; v itself when it is no contiguous Concat.
std::vector<int32_t> pieces_of(const Plan& plan, const Index& index, int32_t v);

/// x_j v_j (+ b): a Linear from one numeric input to a vector.
bool numeric_projection(const Plan& plan, const PlanOp& op);

/// Both pool every bag of one feature alike, so that one read of the rows serves both. Attributes that the
/// pooling does not use may differ.
bool same_pooling(const kernels::EmbedAttrs& a, const kernels::EmbedAttrs& b);

}  // namespace dpi::plan
