// Functions without a vector form, one value at a time, in double. Compiled once, for every processor.
#pragma once

#include <dpi/kernels/unary.hpp>

namespace dpi::kernels::cpu {

/// log, softplus, gelu_erf, pow; any other kind gives x.
float lane_unary(UnaryKind kind, float a, float x);

}  // namespace dpi::kernels::cpu
