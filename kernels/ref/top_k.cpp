#include <dpi/kernels/top_k.hpp>

#include <dpi/kernels/index.hpp>

namespace dpi::kernels::ref {
namespace {

// The entry that follows entry `last` in the order; the first one for last < 0. One pass, no memory.
int64_t next_entry(const TopKAttrs& attrs, const float* x, const AxisView& v, int64_t last) {
  int64_t best = -1;
  for (int64_t i = 0; i < v.n; ++i) {
    const float a = x[i * v.inner];
    if (last >= 0 && !comes_before(attrs, x[last * v.inner], last, a, i)) continue;
    if (best < 0 || comes_before(attrs, a, i, x[best * v.inner], best)) best = i;
  }
  return best;
}

}  // namespace

void top_k(const TopKArgs& a) {
  const AxisView v(a.x.dims, a.attrs.axis);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t slice = 0; slice < v.outer * v.inner; ++slice) {
      const int64_t o = slice / v.inner, b = slice % v.inner;
      int64_t entry = -1;
      for (int64_t j = 0; j < a.attrs.k; ++j) {
        entry = next_entry(a.attrs, a.x.row(r) + v.offset(o, 0, b), v, entry);
        a.dst.row(r)[(o * a.attrs.k + j) * v.inner + b] = static_cast<float>(entry);
      }
    }
  }
}

}  // namespace dpi::kernels::ref
