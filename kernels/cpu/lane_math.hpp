// Functions without a vector form, one value at a time, in double. Compiled once, for every processor.
#pragma once

#include <dpi/kernels/binary.hpp>
#include <dpi/kernels/unary.hpp>

namespace dpi::kernels::cpu {

/// log, softplus, pow, sin, cos (the C library's range reduction: right for large x too); any other
/// kind gives x.
float lane_unary(UnaryKind kind, float a, float x);

float lane_binary(BinaryKind kind, float x, float y);

}  // namespace dpi::kernels::cpu
