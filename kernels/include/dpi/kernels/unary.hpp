// Unary: element-wise functions, with channel parameters on the last axis where the kind has any (FORMAT.md
// part 7, Unary).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

enum class UnaryKind : int32_t {
  kIdentity = 0,
  kRelu = 1,
  kSigmoid = 2,
  kTanh = 3,
  kExp = 4,
  kLog = 5,
  kAbs = 6,
  kSqrt = 7,
  kRsqrt = 8,
  kSilu = 9,
  kSelu = 10,
  kGeluErf = 11,
  kGeluTanh = 12,
  kSoftplus = 13,
  kLeaky = 14,
  kElu = 15,
  kPow = 16,
  kClamp = 17,
  kAffine = 18,
  kPrelu = 19,
  kDice = 20,
  kSin = 21,
  kCos = 22,
  kSign = 23,  // -1, 0 or 1; NaN of a NaN
};

/// | kind   | a       | b     | params (role: p0, p1, p2)                     |
/// | leaky  | slope   |       |                                               |
/// | elu    | alpha   |       |                                               |
/// | pow    | exponent|       |                                               |
/// | clamp  | low     | high  |                                               |
/// | affine | scale   | shift | or p0 = scale [n], p1 = shift [n]             |
/// | prelu  |         |       | p0 = slope [n] or [1]                         |
/// | dice   |         |       | p0 = alpha [n], p1 = scale [n], p2 = shift [n]|
struct UnaryAttrs {
  UnaryKind kind = UnaryKind::kIdentity;
  float a = 0;
  float b = 0;
};

/// dst may be x. n = last dim.
///
/// positions (data null when absent; not in the format, the plan makes it): a number for each slice [n] of a
/// row: where it is 0, dst's slice is 0 and x's is not read.
struct UnaryArgs {
  UnaryAttrs attrs;
  Tensor x;
  Param p0;
  Param p1;
  Param p2;
  Tensor dst;
  Tensor positions{};
};

namespace ref {
void unary(const UnaryArgs& a);
}
namespace cpu {
void unary(const UnaryArgs& a);
}

}  // namespace dpi::kernels
