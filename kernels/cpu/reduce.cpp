#include <dpi/kernels/reduce.hpp>

#include "kernels/cpu/simd/vec.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

/// A row seen as [outer, n, inner] around the reduced axis.
struct Shape {
  int64_t outer = 1, n = 1, inner = 1;
};

float count_of(const float* mask, int64_t n) {
  if (mask == nullptr) return static_cast<float>(n);
  float count = 0;
  for (int64_t i = 0; i < n; ++i) count += mask[i];
  return count;
}

/// Keeps a NaN, as the reference does.
DPI_INLINE Vec larger(Vec x, Vec best) {
  return select(is_nan(x), x, select(is_nan(best), best, max(x, best)));
}

/// inner > 1 (or any): columns are lanes.
void reduce_columns(const ReduceAttrs& attrs, const float* x, const float* mask, const Shape& s, float* dst) {
  const float count = attrs.kind == ReduceKind::kMean ? count_of(mask, s.n) : 1.0f;
  const Vec factor = Vec::all(attrs.kind == ReduceKind::kMean ? 1.0f / (count + attrs.eps) : 1.0f);
  for_vectors(s.inner, [&](int64_t k, int64_t lanes) {
    Vec acc = Vec::zero();
    bool any = false;
    for (int64_t i = 0; i < s.n; ++i) {
      const Vec v = load_n(x + i * s.inner + k, lanes);
      const Vec m = Vec::all(mask == nullptr ? 1.0f : mask[i]);
      if (attrs.kind == ReduceKind::kMax) {
        if (mask != nullptr && mask[i] == 0) continue;
        acc = any ? larger(v, acc) : v;
        any = true;
      } else {
        acc = fma(attrs.kind == ReduceKind::kSumSq ? m * v : m, v, acc);
      }
    }
    const bool empty = attrs.kind == ReduceKind::kMax ? !any : count == 0;
    store_n(dst + k, empty ? Vec::all(attrs.empty) : acc * factor, lanes);
  });
}

/// inner == 1: the axis runs along the lanes.
float reduce_run(const ReduceAttrs& attrs, const float* x, const float* mask, int64_t n) {
  if (attrs.kind == ReduceKind::kMax) {
    bool any = false;
    float best = attrs.empty;
    for (int64_t i = 0; i < n; ++i) {
      if (mask != nullptr && mask[i] == 0) continue;
      if (!any || !(x[i] <= best)) best = x[i];
      any = true;
    }
    return best;
  }
  Vec sum = Vec::zero();
  for_vectors(n, [&](int64_t i, int64_t k) {
    const Vec v = load_n(x + i, k);
    const Vec m = mask == nullptr ? Vec::all(1.0f) : load_n(mask + i, k);
    sum = fma(attrs.kind == ReduceKind::kSumSq ? m * v : m, v, sum);
  });
  if (attrs.kind != ReduceKind::kMean) return sum.sum();
  const float count = count_of(mask, n);
  return count == 0 ? attrs.empty : sum.sum() / (count + attrs.eps);
}

}  // namespace

void reduce(const ReduceArgs& a) {
  Shape s;
  const Dims& dims = a.x.dims;
  s.n = dims.d[a.attrs.axis];
  for (int i = 0; i < a.attrs.axis; ++i) s.outer *= dims.d[i];
  for (int i = a.attrs.axis + 1; i < dims.rank; ++i) s.inner *= dims.d[i];
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const float* x = row_of(a.x, r);
    const float* mask = a.mask.data == nullptr ? nullptr : row_of(a.mask, r);
    float* dst = row_of(a.dst, r);
    for (int64_t o = 0; o < s.outer; ++o) {
      const float* m = mask == nullptr ? nullptr : mask + o * s.n;
      if (s.inner == 1) {
        dst[o] = reduce_run(a.attrs, x + o * s.n, m, s.n);
      } else {
        reduce_columns(a.attrs, x + o * s.n * s.inner, m, s, dst + o * s.inner);
      }
    }
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
