#include <cstring>

#include <dpi/kernels/view.hpp>

#include "index.hpp"

namespace dpi::kernels::ref {
namespace {

// Where element `flat` of the transposed row comes from: dst axis i is src axis perm[i].
int64_t transposed_offset(const Dims& src, const Dims& perm, int64_t flat) {
  int64_t stride[kMaxRank];
  int64_t step = 1;
  for (int i = src.rank - 1; i >= 0; --i) {
    stride[i] = step;
    step *= src.d[i];
  }
  int64_t offset = 0;
  for (int i = src.rank - 1; i >= 0; --i) {
    const int axis = static_cast<int>(perm.d[i]);
    offset += (flat % src.d[axis]) * stride[axis];
    flat /= src.d[axis];
  }
  return offset;
}

// Slice and index_select: entry i of dst's axis is entry `begin + i`, or indices[i], of x's.
int64_t picked_offset(const ViewArgs& a, int64_t flat) {
  const AxisView src(a.x.dims, a.attrs.axis);
  const AxisView dst(a.dst.dims, a.attrs.axis);
  const int64_t i = flat / dst.inner % dst.n;
  const int64_t from = a.attrs.kind == ViewKind::kSlice ? a.attrs.begin + i : a.attrs.indices[i];
  return src.offset(flat / (dst.inner * dst.n), from, flat % dst.inner);
}

int64_t source_offset(const ViewArgs& a, int64_t flat) {
  switch (a.attrs.kind) {
    case ViewKind::kReshape:
      return flat;
    case ViewKind::kTranspose:
      return transposed_offset(a.x.dims, a.attrs.dims, flat);
    case ViewKind::kSlice:
    case ViewKind::kIndexSelect:
      return picked_offset(a, flat);
    case ViewKind::kExpand:
      return broadcast_offset(a.dst.dims, flat, a.x.dims);
  }
  return flat;
}

}  // namespace

void view(const ViewArgs& a) {
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t i = 0; i < a.dst.dims.size(); ++i) a.dst.row(r)[i] = a.x.row(r)[source_offset(a, i)];
  }
}

}  // namespace dpi::kernels::ref
