// Rough work of one op per row, for choosing the longest path and the light branches.
#pragma once

#include "ops/work.hpp"
#include "plan/plan.hpp"

namespace dpi::plan {

/// By the op's row in ops/table.cpp.
OpWork work_of(const Plan& plan, const PlanOp& op);

}  // namespace dpi::plan
