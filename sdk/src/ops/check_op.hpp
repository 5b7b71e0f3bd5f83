// Are the shapes that an op is prepared with what its kind asks for? The plan is expected to be right; this
// is the independent check in front of kernels that trust their arguments. Called by op_prepare of every
// backend.
#pragma once

#include "base/status.hpp"
#include "ops/owned_op.hpp"

namespace dpi {

/// A wrong description is kInvalidArgument and names op, operand, what was found and what was expected.
/// `narrow`: the backend says DPI_BACKEND_HALF, so the operands that table.cpp names may be kF16 or kBF16;
/// else only kF32 is taken.
Status check_op(const OwnedOp& op, bool narrow = false);

/// The operands of one call against the description: pointers present, dims, row strides and element types
/// as prepared. Allocates only when it fails.
Status check_call(const OwnedOp& op, const dpi_op_call& call);

}  // namespace dpi
