// Mask: which positions of a laid-out bag count, as 1 or 0 (FORMAT.md part 7, Mask).
#pragma once

#include <dpi/kernels/embed.hpp>

namespace dpi::kernels {

struct MaskAttrs {
  MaskRule rule = MaskRule::kLength;
  PadSide pad_side = PadSide::kPost;
  int32_t pad_id = 0;
  int64_t max_len = 0;
};

/// rule kId, kLength: reads ids. kNonzero: reads x [rows, T, D] (float32 sum over D is not 0). dst: [rows,
/// T], T = max_len for ids. Padding holds pad_id, so it never counts under kId.
struct MaskArgs {
  MaskAttrs attrs;
  Bags ids;
  Tensor x;
  Tensor dst;
};

namespace ref {
void mask(const MaskArgs& a);
}
namespace cpu {
void mask(const MaskArgs& a);
}

}  // namespace dpi::kernels
