// An op's definition, run once while a plan is made: constants that fold, and where or what the elements of a
// result are made of.
#pragma once

#include <span>
#include <vector>

#include "plan/analysis/ir.hpp"

namespace dpi::plan {

/// Runs the reference form of an op over one row. inputs: its operands in order; params: its weights, if it
/// has any; dst: room for its only output.
void run_definition(const PlanOp& op, std::span<const kernels::Operand> inputs,
                    std::vector<kernels::Param> params, kernels::Tensor dst);

}  // namespace dpi::plan
