// Names of enum values for dumps and error texts.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace dpi::plan {

const char* unary_name(kernels::UnaryKind kind);
const char* binary_name(kernels::BinaryKind kind);
const char* reduce_name(kernels::ReduceKind kind);
const char* view_name(kernels::ViewKind kind);
const char* pooling_name(kernels::Pooling pooling);
const char* space_name(RowSpace space);
std::string number_text(double x);  // shortest form of the float
std::string unary_text(const kernels::UnaryAttrs& a);

/// What the op's attributes say, in one line; "" when there is nothing to say.
std::string attrs_text(const Plan& plan, const PlanOp& op);

}  // namespace dpi::plan
