#include <dpi/kernels/binary.hpp>

#include <dpi/kernels/index.hpp>
#include "apply.hpp"

namespace dpi::kernels::ref {

void binary(const BinaryArgs& a) {
  const Dims& dims = a.dst.dims;
  const int64_t columns = dims.rank > 0 ? dims.at(-1) : 1;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t i = 0; i < dims.size(); ++i) {
      if (left_out(a.positions, r, i / columns)) {
        a.dst.row(r)[i] = 0;
        continue;
      }
      const double x = a.x.row(r)[broadcast_offset(dims, i, a.x.dims)];
      const double y = a.y.row(r)[broadcast_offset(dims, i, a.y.dims)];
      a.dst.row(r)[i] = static_cast<float>(apply_binary(a.attrs.kind, x, y));
    }
  }
}

}  // namespace dpi::kernels::ref
