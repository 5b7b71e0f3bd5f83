#include <dpi/kernels/tail.hpp>

#include "kernels/cpu/spans.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kTileRows = 64;

DPI_INLINE float logit_of(const TailArgs& a, int64_t r) {
  double sum = double{a.attrs.bias};  // branches may cancel
  for (int64_t i = 0; i < a.n_inputs; ++i) {
    const Tensor& x = a.inputs[i].tensor;
    const float* w = a.weights[i].data;
    sum += double{w == nullptr ? *row_of(x, r) : dot(w, row_of(x, r), dims_size(x.dims))};
  }
  return static_cast<float>(sum);
}

}  // namespace

void tail(const TailArgs& a) {
  const SpanUnary act{a.attrs.act, {}};
  for (int64_t first = 0; first < a.rows; first += kTileRows) {
    const int64_t rows = min_of(kTileRows, a.rows - first);
    float logit[kTileRows], value[kTileRows];
    for (int64_t r = 0; r < rows; ++r) logit[r] = logit_of(a, first + r);
    if (a.logit.data != nullptr) {
      for (int64_t r = 0; r < rows; ++r) *row_of(a.logit, first + r) = logit[r];
    }
    if (a.value.data == nullptr) continue;
    unary_span(act, {logit, 1}, value, rows);
    for (int64_t r = 0; r < rows; ++r) *row_of(a.value, first + r) = value[r];
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
