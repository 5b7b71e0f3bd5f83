// Mask: which positions of a laid-out bag count, as 1 or 0. Compiled once, for every processor.
#include <dpi/kernels/mask.hpp>

#include <algorithm>

namespace dpi::kernels::cpu {

namespace {

constexpr int64_t kTogether = 8;  // sums under way at once: each waits for its own last addition only

/// Rows of x added in float32, in order, as the reference does.
void mask_nonzero(const float* x, int64_t dim, int64_t positions, float* dst) {
  for (int64_t first = 0; first < positions; first += kTogether) {
    const int64_t n = std::min(kTogether, positions - first);
    float sum[kTogether] = {};
    const float* row[kTogether];
    for (int64_t i = 0; i < kTogether; ++i) row[i] = x + (first + std::min(i, n - 1)) * dim;
    for (int64_t k = 0; k < dim; ++k) {
      for (int64_t i = 0; i < kTogether; ++i) sum[i] += row[i][k];
    }
    for (int64_t i = 0; i < n; ++i) dst[first + i] = sum[i] != 0 ? 1.0f : 0.0f;
  }
}

void mask_bag(const MaskArgs& a, int64_t r, int64_t positions, float* dst) {
  const Bags& bags = a.ids;
  const int64_t begin = bags.offsets == nullptr ? r * bags.stride : bags.offsets[r];
  const int64_t n = std::min<int64_t>(positions, bags.offsets == nullptr ? 1 : bags.offsets[r + 1] - begin);
  const bool everywhere = a.attrs.rule == MaskRule::kNone;
  std::fill_n(dst, positions, everywhere ? 1.0f : 0.0f);
  if (everywhere) return;
  dst += a.attrs.pad_side == PadSide::kPre ? positions - n : 0;
  if (a.attrs.rule == MaskRule::kLength) {
    std::fill_n(dst, n, 1.0f);
    return;
  }
  const int32_t* ids = bags.ids + begin;
  for (int64_t t = 0; t < n; ++t) dst[t] = ids[t] != a.attrs.pad_id ? 1.0f : 0.0f;
}

}  // namespace

void mask(const MaskArgs& a) {
  const int64_t positions = a.dst.dims.size();
  const bool nonzero = a.attrs.rule == MaskRule::kNonzero;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    if (nonzero)
      mask_nonzero(a.x.row(r), a.x.dims.at(-1), positions, a.dst.row(r));
    else
      mask_bag(a, r, positions, a.dst.row(r));
  }
}

}  // namespace dpi::kernels::cpu
