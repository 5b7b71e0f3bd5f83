#include <dpi/kernels/where.hpp>

#include <dpi/kernels/index.hpp>

namespace dpi::kernels::ref {

void where(const WhereArgs& a) {
  const Dims& dims = a.dst.dims;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t i = 0; i < dims.size(); ++i) {
      const float cond = a.cond.row(r)[broadcast_offset(dims, i, a.cond.dims)];
      const float yes = a.yes.row(r)[broadcast_offset(dims, i, a.yes.dims)];
      const float no = a.no.row(r)[broadcast_offset(dims, i, a.no.dims)];
      a.dst.row(r)[i] = apply_where(cond, yes, no);
    }
  }
}

}  // namespace dpi::kernels::ref
