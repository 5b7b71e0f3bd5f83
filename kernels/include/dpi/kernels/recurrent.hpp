// Recurrent: GRU and its attention forms over the valid positions of a sequence (FORMAT.md part 7,
// Recurrent).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

enum class RecurrentKind : int32_t { kGru = 0, kAgru = 1, kAugru = 2, kVecAtt = 3 };
enum class ResetGate : int32_t { kAfter = 0, kBefore = 1 };
enum class RecurrentOutput : int32_t { kLast = 0, kAll = 1 };

struct RecurrentAttrs {
  RecurrentKind kind = RecurrentKind::kGru;
  ResetGate reset = ResetGate::kAfter;
  RecurrentOutput output = RecurrentOutput::kLast;
};

/// x: [rows, T, i]; mask: [rows, T]; att: [rows, T] (data null for kGru); w_input [3m, i], w_hidden [3m, m],
/// b_input, b_hidden [3m] or null, gate rows r, z, n. dst: [rows, m] or [rows, T, m]. scratch: 7 m floats (in
/// ref: doubles; cpu says what it needs), not shared with another running op.
struct RecurrentArgs {
  RecurrentAttrs attrs;
  Tensor x;
  Tensor mask;
  Tensor att;
  Param w_input;
  Param w_hidden;
  Param b_input;
  Param b_hidden;
  void* scratch = nullptr;
  Tensor dst;
};

namespace ref {
void recurrent(const RecurrentArgs& a);
}
}  // namespace dpi::kernels
