#include <dpi/kernels/reduce.hpp>

#include <dpi/kernels/index.hpp>

namespace dpi::kernels::ref {
namespace {

// What one pass over the axis collects.
struct Collected {
  double sum = 0;
  double sumsq = 0;
  double max = 0;
  double count = 0;
  bool any = false;

  void add(double x, double mask) {
    sum += mask * x;
    sumsq += mask * x * x;
    count += mask;
    if (mask != 0) {
      if (!any || !(x <= max)) max = x;  // keeps a NaN
      any = true;
    }
  }
};

double result(const ReduceAttrs& attrs, const Collected& c) {
  switch (attrs.kind) {
    case ReduceKind::kSum:
      return c.sum;
    case ReduceKind::kMean:
      return c.count == 0 ? attrs.empty : c.sum / (c.count + attrs.eps);
    case ReduceKind::kMax:
      return c.any ? c.max : attrs.empty;
    case ReduceKind::kSumSq:
      return c.sumsq;
  }
  return 0;
}

}  // namespace

void reduce(const ReduceArgs& a) {
  const AxisView view(a.x.dims, a.attrs.axis);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const float* mask = a.mask.data != nullptr ? a.mask.row(r) : nullptr;
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t k = 0; k < view.inner; ++k) {
        Collected c;
        for (int64_t i = 0; i < view.n; ++i) {
          c.add(a.x.row(r)[view.offset(o, i, k)], mask != nullptr ? mask[o * view.n + i] : 1);
        }
        a.dst.row(r)[o * view.inner + k] = static_cast<float>(result(a.attrs, c));
      }
    }
  }
}

}  // namespace dpi::kernels::ref
