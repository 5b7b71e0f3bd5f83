// Softmax along the last axis, without a mask or with one that has that axis whole; the backend gives other
// forms to the reference.
#include <dpi/kernels/index.hpp>
#include <dpi/kernels/softmax.hpp>

#include "kernels/cpu/simd/math.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

/// x after masking; excluded entries (kNinf) become -infinity. kAdd adds in float32, as the libraries do.
DPI_INLINE Vec masked(const SoftmaxAttrs& attrs, Vec x, const float* mask, int64_t i, int64_t n) {
  if (attrs.mask_mode == SoftmaxMask::kNone) return x;
  const Vec m = load_n(mask + i, n);
  if (attrs.mask_mode == SoftmaxMask::kAdd) {
    return x + Vec::all(attrs.value) * (Vec::all(1.0f) - m);
  }
  const bool drop = attrs.mask_mode == SoftmaxMask::kNinf;
  return select(m == Vec::zero(), Vec::all(drop ? -__builtin_inff() : attrs.value), x);
}

alignas(64) constexpr float kOnes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/// A slice of (kVecs - 1) W + 1 to kVecs W entries in registers. False, and nothing written, where all
/// entries are excluded.
template <int kVecs>
DPI_INLINE bool softmax_short(const SoftmaxAttrs& attrs, const float* x, const float* mask, int64_t n,
                              float* dst) {
  const Vec low = Vec::all(-__builtin_inff());
  const int64_t rest = n - (kVecs - 1) * Vec::W;
  Vec v[kVecs];
  Vec most = low;
  DPI_UNROLL
  for (int i = 0; i < kVecs; ++i) {
    const int64_t k = i + 1 < kVecs ? Vec::W : rest;
    v[i] = masked(attrs, load_n(x + i * Vec::W, k), mask, i * Vec::W, k);
    if (i + 1 == kVecs) v[i] = select(load_n(kOnes, k) == Vec::zero(), low, v[i]);
    most = max(v[i], most);
  }
  const float top = most.largest();
  if (top == -__builtin_inff()) return false;
  const Vec high = Vec::all(top);
  Vec sum = Vec::zero();
  DPI_UNROLL
  for (int i = 0; i < kVecs; ++i) {
    v[i] = select(v[i] == low, Vec::zero(), exp(v[i] - high));
    sum = sum + v[i];
  }
  const Vec inverse = Vec::all(1.0f / sum.sum());
  DPI_UNROLL
  for (int i = 0; i < kVecs; ++i) store_n(dst + i * Vec::W, v[i] * inverse, i + 1 < kVecs ? Vec::W : rest);
  return true;
}

bool softmax_in_registers(const SoftmaxAttrs& attrs, const float* x, const float* mask, int64_t n,
                          float* dst) {
  switch ((n + Vec::W - 1) / Vec::W) {
    case 1:
      return softmax_short<1>(attrs, x, mask, n, dst);
    case 2:
      return softmax_short<2>(attrs, x, mask, n, dst);
    case 3:
      return softmax_short<3>(attrs, x, mask, n, dst);
    case 4:
      return softmax_short<4>(attrs, x, mask, n, dst);
    default:
      return false;
  }
}

/// Whole vectors keep their own maxima and sums until the end; what is left of the slice joins them there.
void softmax_slice(const SoftmaxAttrs& attrs, const float* x, const float* mask, int64_t n, float* dst) {
  if (softmax_in_registers(attrs, x, mask, n, dst)) return;
  const Vec low = Vec::all(-__builtin_inff());
  Vec most = low;
  float rest = -__builtin_inff();
  for_vectors(n, [&](int64_t i, int64_t k) {
    const Vec v = masked(attrs, load_n(x + i, k), mask, i, k);
    store_n(dst + i, v, k);
    if (k == Vec::W)
      most = max(v, most);
    else
      rest = v.largest_part(k);
  });
  const float whole = most.largest();
  const float top = rest > whole ? rest : whole;
  if (top == -__builtin_inff()) {  // all excluded; NaN entries stay NaN
    for (int64_t i = 0; i < n; ++i) dst[i] = dst[i] == top ? 0.0f : dst[i];
    return;
  }
  const Vec high = Vec::all(top);
  Vec sum = Vec::zero();
  for_vectors(n, [&](int64_t i, int64_t k) {
    const Vec v = load_n(dst + i, k);
    const Vec e = select(v == low, Vec::zero(), exp(v - high));
    store_n(dst + i, e, k);
    sum = sum + (k == Vec::W ? e : load_n(dst + i, k));
  });
  const Vec inverse = Vec::all(1.0f / sum.sum());
  for_vectors(n, [&](int64_t i, int64_t k) { store_n(dst + i, load_n(dst + i, k) * inverse, k); });
}

}  // namespace

void softmax(const SoftmaxArgs& a) {
  const int64_t n = a.x.dims.d[a.x.dims.rank - 1];
  if (n == 0) return;
  const int64_t slices = dims_size(a.x.dims) / n;
  const bool repeats = a.mask.data != nullptr && !(a.mask.dims == a.x.dims);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t s = 0; s < slices; ++s) {
      const int64_t at = repeats ? broadcast_offset(a.x.dims, s * n, a.mask.dims) : s * n;
      const float* mask = a.mask.data == nullptr ? nullptr : row_of(a.mask, r) + at;
      softmax_slice(a.attrs, row_of(a.x, r) + s * n, mask, n, row_of(a.dst, r) + s * n);
    }
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
