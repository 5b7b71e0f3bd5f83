// Binary: element-wise op of two values, dims aligned at the right, extent 1 broadcasts (FORMAT.md part 7,
// Binary).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

enum class BinaryKind : int32_t { kAdd = 0, kSub = 1, kMul = 2, kDiv = 3, kMax = 4, kMin = 5 };

/// NaN in either operand gives NaN for every kind, max and min included. T: float or double; constexpr, so
/// that nvcc takes it for device code too.
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
  }
  return x;
}

struct BinaryAttrs {
  BinaryKind kind = BinaryKind::kAdd;
};

/// dst may alias x or y when it has exactly the same dims and stride.
struct BinaryArgs {
  BinaryAttrs attrs;
  Tensor x;
  Tensor y;
  Tensor dst;
};

namespace ref {
void binary(const BinaryArgs& a);
}
namespace cpu {
void binary(const BinaryArgs& a);
}

}  // namespace dpi::kernels
