#include <dpi/kernels/unary.hpp>

#include "apply.hpp"

namespace dpi::kernels::ref {

void unary(const UnaryArgs& a) {
  const int64_t channels = a.x.dims.at(-1);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t i = 0; i < a.dst.dims.size(); ++i) {
      if (left_out(a.positions, r, i / channels)) {
        a.dst.row(r)[i] = 0;
        continue;
      }
      const ChannelParams p = channel_params(a.p0, a.p1, a.p2, i % channels);
      a.dst.row(r)[i] = static_cast<float>(apply_unary(a.attrs, a.x.row(r)[i], p));
    }
  }
}

}  // namespace dpi::kernels::ref
