#include <dpi/kernels/cin.hpp>

#include "apply.hpp"

namespace dpi::kernels::ref {
namespace {

void cin_row(const CinArgs& a, const float* x, const float* y, float* dst) {
  const int64_t dim = a.dst.dims.at(-1), out = a.dst.dims.at(-2);
  const int64_t m = a.x.dims.size() / dim;
  const int64_t n = y == nullptr ? m : a.y.dims.size() / dim;
  const int64_t pairs = cin_pairs(m, n, y == nullptr);
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t d = 0; d < dim; ++d) {
      const float* w = a.weight.data + o * pairs;
      double sum = a.bias.data == nullptr ? 0 : a.bias.data[o];
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = y == nullptr ? i : 0; j < n; ++j)
          sum += double{*w++} * x[i * dim + d] * (y == nullptr ? x : y)[j * dim + d];
      }
      dst[o * dim + d] = static_cast<float>(apply_unary(a.attrs.act, sum, {}));
    }
  }
}

}  // namespace

void cin(const CinArgs& a) {
  for (int64_t r = 0; r < a.dst.rows; ++r)
    cin_row(a, a.x.row(r), a.y.data == nullptr ? nullptr : a.y.row(r), a.dst.row(r));
}

}  // namespace dpi::kernels::ref
