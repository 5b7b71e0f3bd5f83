#include <cstring>

#include <dpi/kernels/view.hpp>

namespace dpi::kernels::ref {

void broadcast_rows(const BroadcastRowsArgs& a) {
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const int64_t from = a.row_map != nullptr ? a.row_map[r] : r;
    std::memcpy(a.dst.row(r), a.x.row(from), a.dst.dims.size() * sizeof(float));
  }
}

}  // namespace dpi::kernels::ref
