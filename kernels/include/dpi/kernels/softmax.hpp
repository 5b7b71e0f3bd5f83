// Softmax along one axis with three ways to mask (FORMAT.md part 7, Softmax).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

enum class SoftmaxMask : int32_t { kNone = 0, kNinf = 1, kAdd = 2, kReplace = 3 };

struct SoftmaxAttrs {
  int32_t axis = -1;  // resolved by the graph to 0 .. rank-1
  SoftmaxMask mask_mode = SoftmaxMask::kNone;
  float value = -1e9f;
};

/// mask: same dims as x up to and including axis, or broadcastable to x; data null when mask_mode is kNone.
/// dst may be x. When a mask fits both readings, the first one holds. kAdd rounds x + value (1 - mask) to
/// float32 before the maximum is subtracted, as every library does: a slice that is masked throughout comes
/// out (nearly) uniform, not as the softmax of x.
struct SoftmaxArgs {
  SoftmaxAttrs attrs;
  Tensor x;
  Tensor mask;
  Tensor dst;
};

namespace ref {
void softmax(const SoftmaxArgs& a);
}
namespace cpu {
void softmax(const SoftmaxArgs& a);
}

}  // namespace dpi::kernels
