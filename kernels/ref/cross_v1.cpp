#include <dpi/kernels/cross_v1.hpp>

namespace dpi::kernels::ref {
namespace {

// dst holds x_l in float32 between the layers, as the step-by-step definition of the graph does.
void cross_row(const CrossV1Args& a, const float* x0, float* x) {
  const int64_t n = a.x0.dims.size();
  for (int64_t i = 0; i < n; ++i) x[i] = x0[i];
  for (int64_t l = 0; l < a.attrs.layers; ++l) {
    const float* w = a.w.data + l * n;
    const float* b = a.b.data + l * n;
    double dot = 0;
    for (int64_t i = 0; i < n; ++i) dot += double{w[i]} * x[i];
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(x0[i] * dot + b[i] + x[i]);
  }
}

}  // namespace

void cross_v1(const CrossV1Args& a) {
  for (int64_t r = 0; r < a.dst.rows; ++r) cross_row(a, a.x0.row(r), a.dst.row(r));
}

void cross_v1_closed(const CrossV1ClosedArgs& a) {
  const int64_t layers = a.attrs.layers;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const float* p = a.p.row(r);
    double scale = 1;  // a_l
    for (int64_t l = 0; l < layers; ++l) scale = scale * (1 + double{p[l]}) + a.k.data[l];
    a.dst.row(r)[0] = static_cast<float>(scale * p[layers] + a.y0.data[0]);
  }
}

}  // namespace dpi::kernels::ref
