// MatMul: per-row matrix product alpha op(a) op(b); leading dims broadcast (FORMAT.md part 7, MatMul).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

struct MatMulAttrs {
  int32_t trans_a = 0;
  int32_t trans_b = 0;
  float alpha = 1;
};

/// a: [rows, .., m, k], b: [rows, .., k, n] (before the transposes), dst: [rows, .., m, n]. A constant
/// operand has row_stride 0.
struct MatMulArgs {
  MatMulAttrs attrs;
  Tensor a;
  Tensor b;
  Tensor dst;
};

namespace ref {
void matmul(const MatMulArgs& a);
}
namespace cpu {
void matmul(const MatMulArgs& a);
}

}  // namespace dpi::kernels
