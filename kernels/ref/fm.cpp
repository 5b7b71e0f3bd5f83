#include <dpi/kernels/fm.hpp>

namespace dpi::kernels::ref {

void fm(const FmArgs& a) {
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const float* x = a.x.row(r);
    double y = 0;
    for (int64_t k = 0; k < a.attrs.dim; ++k) {
      double sum = 0;
      double squares = 0;
      for (int64_t f = 0; f < a.attrs.fields; ++f) {
        const double e = x[f * a.attrs.dim + k];
        sum += e;
        squares += e * e;
      }
      y += 0.5 * (sum * sum - squares);
    }
    a.dst.row(r)[0] = static_cast<float>(y);
  }
}

}  // namespace dpi::kernels::ref
