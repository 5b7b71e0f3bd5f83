#include <dpi/kernels/linear.hpp>

namespace dpi::kernels::ref {
namespace {

double bias_at(const Param& bias, int64_t i) { return bias.data != nullptr ? bias.data[i] : 0; }

bool counts(const LinearArgs& a, int64_t r, int64_t slice) {
  return a.positions.data == nullptr || a.positions.row(r)[slice] != 0;
}

/// The row of `shared` that row r adds, or null.
const float* shared_row(const LinearArgs& a, int64_t r) {
  if (a.shared.data == nullptr) return nullptr;
  return a.shared.row(a.row_map == nullptr ? r : a.row_map[r]);
}

// dst[i, g, o] = sum_k weight[g, o, k] x[i, g or 0, k] + bias[g, o] + shared[i, o]; behind x the n columns of
// `once`
void linear_last_row(const LinearArgs& a, int64_t r) {
  const float* const x = a.x.row(r);
  const float* const once = a.once.data != nullptr ? a.once.row(r) : nullptr;
  const float* const shared = shared_row(a, r);
  float* const dst = a.dst.row(r);
  const int64_t in = a.x.dims.at(-1);
  const int64_t n = once != nullptr ? a.once.dims.size() : 0;
  const int64_t out = a.dst.dims.at(-1);
  const int64_t groups = a.attrs.groups;
  const int64_t x_groups = groups > 1 ? a.x.dims.at(-2) : 1;
  const int64_t outer = a.dst.dims.size() / (groups * out);
  for (int64_t row = 0; row < outer * groups; ++row) {
    const int64_t g = row % groups;
    const float* src = x + ((row / groups) * x_groups + (x_groups > 1 ? g : 0)) * in;
    for (int64_t o = 0; o < out; ++o) {
      const float* w = a.weight.data + (g * out + o) * (in + n);
      dst[row * out + o] = 0;
      if (!counts(a, r, row)) continue;
      double sum = bias_at(a.bias, g * out + o);
      for (int64_t k = 0; k < in; ++k) sum += double{w[k]} * src[k];
      for (int64_t k = 0; k < n; ++k) sum += double{w[in + k]} * once[k];
      if (shared != nullptr) sum += shared[row * out + o];
      dst[row * out + o] = static_cast<float>(sum);
    }
  }
}

// dst[i, o, d] = sum_n weight[o, n] x[i, n, d] + bias[o]
void linear_field_row(const LinearArgs& a, const float* x, float* dst) {
  const int64_t n = a.x.dims.at(-2);
  const int64_t out = a.dst.dims.at(-2);
  const int64_t dim = a.dst.dims.at(-1);
  const int64_t outer = a.dst.dims.size() / (out * dim);
  for (int64_t i = 0; i < outer; ++i) {
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t d = 0; d < dim; ++d) {
        double sum = bias_at(a.bias, o);
        for (int64_t f = 0; f < n; ++f) sum += double{a.weight.data[o * n + f]} * x[(i * n + f) * dim + d];
        dst[(i * out + o) * dim + d] = static_cast<float>(sum);
      }
    }
  }
}

}  // namespace

void linear(const LinearArgs& a) {
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    if (a.attrs.axis == LinearAxis::kField) {
      linear_field_row(a, a.x.row(r), a.dst.row(r));
    } else {
      linear_last_row(a, r);
    }
  }
}

}  // namespace dpi::kernels::ref
