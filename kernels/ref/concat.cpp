#include <cstring>

#include <dpi/kernels/concat.hpp>

#include <dpi/kernels/index.hpp>

namespace dpi::kernels::ref {

void concat(const ConcatArgs& a) {
  const AxisView dst_view(a.dst.dims, a.attrs.axis);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    int64_t begin = 0;  // where the input starts on the axis
    for (int64_t j = 0; j < a.n_inputs; ++j) {
      const Tensor& x = a.inputs[j].tensor;
      const int64_t n = x.dims.d[a.attrs.axis];
      const int64_t run = n * dst_view.inner;
      for (int64_t o = 0; o < dst_view.outer; ++o) {
        std::memcpy(a.dst.row(r) + dst_view.offset(o, begin, 0), x.row(r) + o * run, run * sizeof(float));
      }
      begin += n;
    }
  }
}

}  // namespace dpi::kernels::ref
