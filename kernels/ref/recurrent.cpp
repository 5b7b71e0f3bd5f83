#include <cmath>

#include <dpi/kernels/recurrent.hpp>

#include "apply.hpp"

namespace dpi::kernels::ref {
namespace {

// g[j] = b[j] + sum_k w[j, k] v[k] for j in [0, n)
template <class V>
void affine(const Param& w, const Param& b, int64_t first, int64_t n, const V* v, int64_t depth, double* g) {
  for (int64_t j = 0; j < n; ++j) {
    double sum = b.data != nullptr ? b.data[first + j] : 0;
    for (int64_t k = 0; k < depth; ++k) sum += double{w.data[(first + j) * depth + k]} * v[k];
    g[j] = sum;
  }
}

// scratch of one sequence, m doubles each except where noted
struct State {
  double* h;
  double* g;  // [3m]: W_i x + b_i
  double* u;  // [3m]: W_h h + b_h; its n part from r h with ResetGate::kBefore
};

// h' from h, the candidate n and the update gate z, with attention weight `att`
double update(RecurrentKind kind, double h, double n, double z, double att) {
  switch (kind) {
    case RecurrentKind::kGru:
      return (1 - z) * n + z * h;
    case RecurrentKind::kAgru:
      return (1 - att) * h + att * n;
    case RecurrentKind::kAugru:
      return (1 - att * z) * h + att * z * n;
    case RecurrentKind::kVecAtt:
      return (1 - att) * z * h + (1 - (1 - att) * z) * n;
  }
  return h;
}

void step(const RecurrentArgs& a, const float* x, double att, int64_t m, const State& s) {
  affine(a.w_input, a.b_input, 0, 3 * m, x, a.x.dims.at(-1), s.g);
  affine(a.w_hidden, a.b_hidden, 0, 2 * m, s.h, m, s.u);
  double* r = s.u;  // the gates take the place of their sums
  double* z = s.u + m;
  double* u_n = s.u + 2 * m;
  for (int64_t j = 0; j < m; ++j) {
    r[j] = sigmoid(s.g[j] + s.u[j]);
    z[j] = sigmoid(s.g[m + j] + s.u[m + j]);
  }
  if (a.attrs.reset == ResetGate::kBefore) {
    double* reset_h = s.g;  // g_r is not needed any more
    for (int64_t j = 0; j < m; ++j) reset_h[j] = r[j] * s.h[j];
    affine(a.w_hidden, a.b_hidden, 2 * m, m, reset_h, m, u_n);
  } else {
    affine(a.w_hidden, a.b_hidden, 2 * m, m, s.h, m, u_n);
    for (int64_t j = 0; j < m; ++j) u_n[j] *= r[j];
  }
  for (int64_t j = 0; j < m; ++j)
    s.h[j] = update(a.attrs.kind, s.h[j], std::tanh(s.g[2 * m + j] + u_n[j]), z[j], att);
}

}  // namespace

void recurrent(const RecurrentArgs& a) {
  const int64_t steps = a.x.dims.d[0];
  const int64_t in = a.x.dims.d[1];
  const int64_t m = a.dst.dims.at(-1);
  double* scratch = static_cast<double*>(a.scratch);
  const State s{scratch, scratch + m, scratch + 4 * m};
  const bool all = a.attrs.output == RecurrentOutput::kAll;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t j = 0; j < m; ++j) s.h[j] = 0;
    for (int64_t t = 0; t < steps; ++t) {
      const bool valid = a.mask.row(r)[t] != 0;
      if (valid) step(a, a.x.row(r) + t * in, a.att.data != nullptr ? a.att.row(r)[t] : 0, m, s);
      if (!all) continue;
      for (int64_t j = 0; j < m; ++j) a.dst.row(r)[t * m + j] = valid ? static_cast<float>(s.h[j]) : 0;
    }
    if (all) continue;
    for (int64_t j = 0; j < m; ++j) a.dst.row(r)[j] = static_cast<float>(s.h[j]);
  }
}

}  // namespace dpi::kernels::ref
