// What plan dumps add to ops/text.hpp.
#pragma once

#include <string>

#include "ops/text.hpp"
#include "plan/plan.hpp"

namespace dpi::plan {

using ops::pooling_name;

const char* space_name(RowSpace space);
std::string number_text(double x);  // shortest form of the float

/// What the op's attributes say, in one line; "" when there is nothing to say.
std::string attrs_text(const PlanOp& op);

}  // namespace dpi::plan
