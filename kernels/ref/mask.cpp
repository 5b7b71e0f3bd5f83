#include <dpi/kernels/mask.hpp>

#include "pool.hpp"

namespace dpi::kernels::ref {
namespace {

bool position_counts(const MaskArgs& a, int64_t r, int64_t t) {
  if (a.attrs.rule == MaskRule::kNonzero) {
    const int64_t dim = a.x.dims.at(-1);
    const float* x = a.x.row(r) + t * dim;
    float sum = 0;  // float32, in order: the libraries that mask by value add in float32
    for (int64_t k = 0; k < dim; ++k) sum += x[k];
    return sum != 0;
  }
  bool is_padding = false;
  const Bag bag = bag_at(a.ids, r);
  const int32_t id = laid_out_id(bag, a.attrs.pad_side, a.attrs.max_len, a.attrs.pad_id, t, &is_padding);
  if (a.attrs.rule == MaskRule::kId) return id != a.attrs.pad_id;
  return a.attrs.rule == MaskRule::kNone || !is_padding;
}

}  // namespace

void mask(const MaskArgs& a) {
  const int64_t n = a.dst.dims.size();
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t t = 0; t < n; ++t) a.dst.row(r)[t] = position_counts(a, r, t) ? 1.0f : 0.0f;
  }
}

}  // namespace dpi::kernels::ref
