#include <dpi/kernels/gather.hpp>

namespace dpi::kernels::ref {

void gather(const GatherArgs& a) {
  const Dims& dims = a.dst.dims;
  const int64_t n = a.x.dims.d[a.attrs.axis];
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t i = 0; i < dims.size(); ++i) {
      const float position = a.index.row(r)[broadcast_offset(dims, i, a.index.dims)];
      const int64_t entry = entry_of(position, n);
      a.dst.row(r)[i] =
          entry < 0 ? position : a.x.row(r)[gathered_offset(dims, i, a.x.dims, a.attrs.axis, entry)];
    }
  }
}

}  // namespace dpi::kernels::ref
