// Binary: element-wise op of two values, dims aligned at the right, extent 1 broadcasts (FORMAT.md part 7,
// Binary).
#pragma once

#include <cmath>

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

enum class BinaryKind : int32_t {
  kAdd = 0,
  kSub = 1,
  kMul = 2,
  kDiv = 3,
  kMax = 4,
  kMin = 5,
  // comparisons: 1 or 0
  kLt = 6,
  kLe = 7,
  kGt = 8,
  kGe = 9,
  kEq = 10,
  kNe = 11,
  kAtan2 = 12,  // the angle of the point (y, x), as std::atan2(x, y): -pi to pi
};

/// NaN in either operand gives NaN for the kinds of arithmetic, max and min included. Comparisons follow
/// IEEE: a NaN is unlike everything, itself too, so kNe gives 1 and the others 0; 0 and -0 are equal.
/// kAtan2 is computed in double. T: float or double; constexpr, so that nvcc takes it for device code too.
template <class T>
constexpr T apply_binary(BinaryKind kind, T x, T y) {
  switch (kind) {
    case BinaryKind::kAdd:
      return x + y;
    case BinaryKind::kSub:
      return x - y;
    case BinaryKind::kMul:
      return x * y;
    case BinaryKind::kDiv:
      return x / y;
    case BinaryKind::kMax:
      return x != x || x > y ? x : y;
    case BinaryKind::kMin:
      return x != x || x < y ? x : y;
    case BinaryKind::kLt:
      return x < y ? T{1} : T{0};
    case BinaryKind::kLe:
      return x <= y ? T{1} : T{0};
    case BinaryKind::kGt:
      return x > y ? T{1} : T{0};
    case BinaryKind::kGe:
      return x >= y ? T{1} : T{0};
    case BinaryKind::kEq:
      return x == y ? T{1} : T{0};
    case BinaryKind::kNe:
      return x != y ? T{1} : T{0};
    case BinaryKind::kAtan2:
      return static_cast<T>(std::atan2(static_cast<double>(x), static_cast<double>(y)));
  }
  return x;
}

struct BinaryAttrs {
  BinaryKind kind = BinaryKind::kAdd;
};

/// dst may alias x or y when it has exactly the same dims and stride.
///
/// positions (data null when absent; not in the format, the plan makes it): for dst of [positions, n], a
/// number for each place of a row: where it is 0, dst's place is 0 and nothing is read for it.
struct BinaryArgs {
  BinaryAttrs attrs;
  Tensor x;
  Tensor y;
  Tensor dst;
  Tensor positions{};
};

namespace ref {
void binary(const BinaryArgs& a);
}
namespace cpu {
void binary(const BinaryArgs& a);
}

}  // namespace dpi::kernels
