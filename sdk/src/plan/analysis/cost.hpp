// Rough work of one op per row, for choosing the longest path and the light branches. Only comparisons use
// it.
#pragma once

#include "plan/plan.hpp"

namespace dpi::plan {

struct OpWork {
  double flops = 0;   // multiply-adds per row
  double floats = 0;  // floats read and written per row, weights left out
  /// Microseconds at a middling batch on a data-centre GPU: launch + arithmetic + memory.
  double time() const { return 2.0 + flops * 5e-5 + floats * 2e-3; }
};

OpWork work_of(const Plan& plan, const PlanOp& op);

}  // namespace dpi::plan
