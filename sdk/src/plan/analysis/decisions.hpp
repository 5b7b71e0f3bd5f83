// Arithmetic that a decision sees: a comparison, a sign, the places of the largest, a position that is cut to
// an integer. There one rounding may change a score by any amount, so no pass computes such a value otherwise
// or keeps fewer bits of it.
#pragma once

#include <vector>

#include "plan/analysis/ir.hpp"

namespace dpi::plan {

/// Element-wise ops and what moves elements: of sums the order of the terms is left to a device.
bool rounds_alone(OpKind kind);

/// By value: element-wise ops and views lead from it to a decision. Sums end the way.
std::vector<char> ahead_of_decisions(const Plan& plan, const Index& index);

}  // namespace dpi::plan
