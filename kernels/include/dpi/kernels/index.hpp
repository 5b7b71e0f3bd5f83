// Index arithmetic that every backend does alike: positions in values of several dims. constexpr, so that
// nvcc takes it for device code too.
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

/// Where element `flat` of a row with dims `dst` lies in a row with dims `src`. src's dims align with dst's
/// at the right; an extent of 1 (or a missing axis) repeats. trailing: axes at the right that count as one
/// element (2: `flat` numbers matrices).
constexpr int64_t broadcast_offset(const Dims& dst, int64_t flat, const Dims& src, int trailing = 0) {
  int64_t offset = 0;
  int64_t stride = 1;
  for (int i = dst.rank - 1 - trailing; i >= 0; --i) {
    const int j = i - (dst.rank - src.rank);
    const int64_t index = flat % dst.d[i];
    flat /= dst.d[i];
    if (j < 0) continue;
    if (src.d[j] != 1) offset += index * stride;
    stride *= src.d[j];
  }
  return offset;
}

/// Where element `flat` of the transposed row comes from: dst axis i is src axis perm[i].
constexpr int64_t transposed_offset(const Dims& src, const Dims& perm, int64_t flat) {
  int64_t stride[kMaxRank] = {};
  int64_t step = 1;
  for (int i = src.rank - 1; i >= 0; --i) {
    stride[i] = step;
    step *= src.d[i];
  }
  int64_t offset = 0;
  for (int i = src.rank - 1; i >= 0; --i) {
    const auto axis = static_cast<int>(perm.d[i]);
    offset += (flat % src.d[axis]) * stride[axis];
    flat /= src.d[axis];
  }
  return offset;
}

/// A row seen as [outer, n, inner] around one axis.
struct AxisView {
  int64_t outer = 1;
  int64_t n = 1;
  int64_t inner = 1;

  constexpr AxisView() = default;
  constexpr AxisView(const Dims& dims, int axis) : n(dims.d[axis]) {
    for (int i = 0; i < axis; ++i) outer *= dims.d[i];
    for (int i = axis + 1; i < dims.rank; ++i) inner *= dims.d[i];
  }
  constexpr int64_t offset(int64_t o, int64_t i, int64_t k) const { return (o * n + i) * inner + k; }
};

}  // namespace dpi::kernels
