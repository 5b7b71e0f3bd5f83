#include <cmath>
#include <limits>

#include <dpi/kernels/softmax.hpp>

#include <dpi/kernels/index.hpp>

namespace dpi::kernels::ref {
namespace {

// Does the mask have exactly the dims of x up to and including axis?
bool is_prefix_mask(const SoftmaxArgs& a) {
  if (a.mask.dims.rank != a.attrs.axis + 1) return false;
  for (int i = 0; i <= a.attrs.axis; ++i) {
    if (a.mask.dims.d[i] != a.x.dims.d[i]) return false;
  }
  return true;
}

// One slice along the axis.
struct Slice {
  const SoftmaxArgs& a;
  AxisView view;
  bool prefix_mask;
  int64_t row;
  int64_t outer;
  int64_t inner;

  int64_t offset(int64_t i) const { return view.offset(outer, i, inner); }

  double mask(int64_t i) const {
    if (a.attrs.mask_mode == SoftmaxMask::kNone) return 1;
    const float* m = a.mask.row(row);
    return prefix_mask ? m[outer * view.n + i] : m[broadcast_offset(a.x.dims, offset(i), a.mask.dims)];
  }

  bool excluded(int64_t i) const { return a.attrs.mask_mode == SoftmaxMask::kNinf && mask(i) == 0; }

  // The logit of entry i after masking. kAdd rounds to float32 as every library does: next to -1e9 nothing is
  // left of x, so a slice that is masked throughout comes out uniform.
  double logit(int64_t i) const {
    const double x = a.x.row(row)[offset(i)];
    if (a.attrs.mask_mode == SoftmaxMask::kAdd) return static_cast<float>(x + a.attrs.value * (1 - mask(i)));
    if (a.attrs.mask_mode == SoftmaxMask::kReplace && mask(i) == 0) return a.attrs.value;
    return x;
  }
};

}  // namespace

// dst may be x: a slice's logits are read before any of its outputs is written, except that entry i reads
// x[i] just before writing it.
void softmax(const SoftmaxArgs& a) {
  const AxisView view(a.x.dims, a.attrs.axis);
  const bool prefix_mask = is_prefix_mask(a);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t s = 0; s < view.outer * view.inner; ++s) {
      const Slice slice{a, view, prefix_mask, r, s / view.inner, s % view.inner};
      double top = -std::numeric_limits<double>::infinity();
      for (int64_t i = 0; i < view.n; ++i) {
        const double x = slice.logit(i);
        if (!slice.excluded(i) && !(x <= top)) top = x;  // keeps a NaN
      }
      double sum = 0;
      for (int64_t i = 0; i < view.n; ++i) sum += slice.excluded(i) ? 0 : std::exp(slice.logit(i) - top);
      for (int64_t i = 0; i < view.n; ++i) {
        const double e = slice.excluded(i) ? 0 : std::exp(slice.logit(i) - top) / sum;
        a.dst.row(r)[slice.offset(i)] = static_cast<float>(e);
      }
    }
  }
}

}  // namespace dpi::kernels::ref
