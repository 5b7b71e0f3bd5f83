// One op call over a share of its rows.
#pragma once

#include "backend/cpu/cpu_op.hpp"

namespace dpi::backend {

/// Whether the call is worth splitting and can be: enough rows, operands that fit the fixed arrays.
bool worth_splitting(const CpuOp& op, const dpi_op_call& call);

/// Runs the call in shares over the op's pool. Every row is computed as it would be alone, so the result has
/// the same bits.
void run_split(const CpuOp& op, const dpi_op_call& call);

}  // namespace dpi::backend
