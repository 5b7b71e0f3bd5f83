#include <dpi/kernels/tail.hpp>

#include "apply.hpp"

namespace dpi::kernels::ref {
namespace {

double branch(const Tensor& x, const Param& w, int64_t r) {
  if (w.data == nullptr) return x.row(r)[0];
  double dot = 0;
  for (int64_t k = 0; k < x.dims.size(); ++k) dot += double{w.data[k]} * x.row(r)[k];
  return dot;
}

}  // namespace

void tail(const TailArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    double logit = a.attrs.bias;
    for (int64_t i = 0; i < a.n_inputs; ++i) logit += branch(a.inputs[i].tensor, a.weights[i], r);
    if (a.logit.data != nullptr) a.logit.row(r)[0] = static_cast<float>(logit);
    if (a.value.data != nullptr) a.value.row(r)[0] = static_cast<float>(apply_unary(a.attrs.act, logit, {}));
  }
}

}  // namespace dpi::kernels::ref
