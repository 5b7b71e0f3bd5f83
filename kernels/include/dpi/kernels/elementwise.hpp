// Elementwise: several steps of Unary, Binary and Where ops in one pass over the rows (the paper's fusion of
// neighbouring non-GEMM operators).
#pragma once

#include <dpi/kernels/binary.hpp>
#include <dpi/kernels/unary.hpp>
#include <dpi/kernels/where.hpp>

namespace dpi::kernels {

constexpr int kMaxElementwiseInputs = 8;
constexpr int kMaxElementwiseSteps = 16;

enum class StepKind : int32_t { kUnary = 0, kBinary = 1, kWhere = 2 };

/// One step of the program. Registers 0 .. n_inputs-1 hold the inputs, step k writes register n_inputs + k;
/// the last step's register is the result. Unary steps read `x`; binary steps read `x` and `y`; a Where reads
/// `x` as its condition, then `y` or `z`. param: first of the step's params in the op's list, -1 = none.
struct ElementwiseStep {
  StepKind kind = StepKind::kUnary;
  UnaryAttrs unary;
  BinaryKind binary = BinaryKind::kAdd;
  int32_t x = 0;
  int32_t y = 0;
  int32_t param = -1;
  int32_t n_params = 0;
  int32_t z = 0;
};

struct ElementwiseAttrs {
  ElementwiseStep steps[kMaxElementwiseSteps];
  int32_t n_steps = 0;
  int32_t n_inputs = 0;
};

/// Inputs have the dims of dst, or fewer that broadcast to them (dims align at the right, extent 1 repeats).
/// dst may be an input that has exactly dst's dims and stride. params: the steps' channel parameters over
/// dst's last axis. A step's result counts as rounded to float32, so that the fused op means the same as its
/// ops one by one.
struct ElementwiseArgs {
  ElementwiseAttrs attrs;
  const Operand* inputs = nullptr;
  const Param* params = nullptr;
  Tensor dst;
};

namespace ref {
void elementwise(const ElementwiseArgs& a);
}
namespace cpu {
void elementwise(const ElementwiseArgs& a);
}

}  // namespace dpi::kernels
