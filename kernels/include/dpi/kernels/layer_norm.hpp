// LayerNorm over the last axis, biased variance (FORMAT.md part 7, LayerNorm).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

struct LayerNormAttrs {
  float eps = 1e-5f;
};

/// gamma, beta: [d], or [F, d] for x [.., F, d]; either may be absent (1 and 0). dst may be x.
///
/// positions (data null when absent; not in the format, the plan makes it): a number for each slice [d] of a
/// row: where it is 0, dst's slice is 0 and x's is not read.
struct LayerNormArgs {
  LayerNormAttrs attrs;
  Tensor x;
  Param gamma;
  Param beta;
  Tensor dst;
  Tensor positions{};
};

namespace ref {
void layer_norm(const LayerNormArgs& a);
}
namespace cpu {
void layer_norm(const LayerNormArgs& a);
}

}  // namespace dpi::kernels
