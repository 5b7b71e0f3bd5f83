#include <cstring>

#include <dpi/kernels/view.hpp>

#include <dpi/kernels/index.hpp>

namespace dpi::kernels::ref {
namespace {

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
