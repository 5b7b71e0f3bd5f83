// Pieces of plan dumps that ops/text.hpp does not have.
#pragma once

#include <string>

#include "ops/text.hpp"
#include "plan/plan.hpp"

namespace dpi::plan {

using ops::pooling_name;

const char* space_name(RowSpace space);
std::string number_text(double x);  // shortest form of the float

/// The op's attributes in one line; "" when it has none to show.
std::string attrs_text(const PlanOp& op);

}  // namespace dpi::plan
