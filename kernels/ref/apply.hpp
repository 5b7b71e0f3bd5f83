// The scalar functions behind Unary and Binary, in double, and which slices of a row count. Used by every
// reference kernel that applies an activation.
#pragma once

#include <cmath>

#include <dpi/kernels/binary.hpp>
#include <dpi/kernels/unary.hpp>

namespace dpi::kernels::ref {

/// Channel parameters of one element (the table in unary.hpp says which kind reads which).
struct ChannelParams {
  double p0 = 0;
  double p1 = 0;
  double p2 = 0;
  bool present = false;  // affine: params instead of the scalars a and b
};

/// The parameters of column `c`; a parameter of one element serves every column.
ChannelParams channel_params(const Param& p0, const Param& p1, const Param& p2, int64_t c);

/// True if the slice does not count; without `positions` all count.
inline bool left_out(const Tensor& positions, int64_t r, int64_t slice) {
  return positions.data != nullptr && positions.row(r)[slice] == 0;
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// NaN in gives NaN out for every kind.
double apply_unary(const UnaryAttrs& attrs, double x, const ChannelParams& p);

}  // namespace dpi::kernels::ref
