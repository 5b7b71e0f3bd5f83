#include <dpi/kernels/multi_lookup.hpp>

#include "pool.hpp"

namespace dpi::kernels::ref {
namespace {

double field_at(const MultiLookupArgs& a, const LookupField& f, int64_t r, int64_t k) {
  return pooled_at(f.embed, bag_at(a.inputs[f.input].bags, r), a.tables[f.table], k);
}

// Element k of what a numeric field contributes: x v[k] with a vector, else the feature's own floats.
double numeric_at(const MultiLookupArgs& a, const NumericField& f, int64_t r, int64_t k) {
  const float* x = a.inputs[f.input].tensor.row(r);
  return f.vec >= 0 ? double{x[0]} * a.numeric_vec.data[f.vec + k] : double{x[k]};
}

void copy_columns(const MultiLookupArgs& a, int64_t r) {
  for (int32_t i = 0; i < a.attrs.n_fields; ++i) {
    const LookupField& f = a.attrs.fields[i];
    if (f.out_col < 0) continue;
    const int64_t dim = a.tables[f.table].dim;
    for (int64_t k = 0; k < dim; ++k) a.out.row(r)[f.out_col + k] = static_cast<float>(field_at(a, f, r, k));
  }
  for (int32_t i = 0; i < a.attrs.n_numerics; ++i) {
    const NumericField& f = a.attrs.numerics[i];
    if (f.out_col < 0) continue;
    for (int64_t k = 0; k < f.dim; ++k)
      a.out.row(r)[f.out_col + k] = static_cast<float>(numeric_at(a, f, r, k));
  }
}

double fm_sum(const MultiLookupArgs& a, int64_t r) {
  double pairs = 0;
  for (int64_t k = 0; k < a.attrs.fm_dim; ++k) {
    double before = 0;
    const auto add = [&](double e) {
      pairs += e * before;
      before += e;
    };
    for (int32_t i = 0; i < a.attrs.n_fields; ++i) {
      if (a.attrs.fields[i].fm) add(field_at(a, a.attrs.fields[i], r, k));
    }
    for (int32_t i = 0; i < a.attrs.n_numerics; ++i) {
      if (a.attrs.numerics[i].fm) add(numeric_at(a, a.attrs.numerics[i], r, k));
    }
  }
  return pairs;
}

double channel_sum(const MultiLookupArgs& a, int64_t r, int32_t c) {
  double sum = a.channel_bias.data != nullptr ? a.channel_bias.data[c] : 0;
  for (int32_t i = 0; i < a.attrs.n_scalars; ++i) {
    const ScalarField& f = a.attrs.scalars[i];
    const int32_t k = c - f.first_channel;
    if (k < 0 || k >= f.count) continue;
    sum += pooled_at(f.embed, bag_at(a.inputs[f.input].bags, r), a.tables[f.table], k);
  }
  for (int32_t i = 0; i < a.attrs.n_numerics; ++i) {
    const NumericField& f = a.attrs.numerics[i];
    if (f.coef < 0) continue;
    const double x = a.inputs[f.input].tensor.row(r)[0];
    sum += x * a.numeric_coef.data[f.coef + c];
  }
  return c == a.attrs.fm_channel ? sum + fm_sum(a, r) : sum;
}

}  // namespace

void multi_lookup(const MultiLookupArgs& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    if (a.out.data != nullptr) copy_columns(a, r);
    for (int32_t c = 0; c < a.attrs.n_channels; ++c)
      a.chan.row(r)[c] = static_cast<float>(channel_sum(a, r, c));
  }
}

}  // namespace dpi::kernels::ref
