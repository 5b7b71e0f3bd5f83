#include <dpi/kernels/attention.hpp>

#include <cmath>
#include <limits>

namespace dpi::kernels::ref {
namespace {

// One query of one head.
struct Query {
  const AttentionArgs& a;
  int64_t row;
  int64_t head;
  int64_t query;

  double mask(int64_t j) const {
    return a.mask.row(row)[head * a.attrs.mask_head + query * a.attrs.mask_query + j];
  }
  bool excluded(int64_t j) const { return a.attrs.mask_mode == SoftmaxMask::kNinf && mask(j) == 0; }

  double score(int64_t j) const {
    const float* const q = a.q.row(row) + a.attrs.q.at(head, query);
    const float* const k = a.k.row(row) + a.attrs.k.at(head, j);
    double sum = 0;
    for (int64_t c = 0; c < a.attrs.dim; ++c) sum += double{q[c]} * k[c];
    const double x = a.attrs.scale * sum;
    if (a.attrs.mask_mode == SoftmaxMask::kAdd) return static_cast<float>(x + a.attrs.value * (1 - mask(j)));
    if (a.attrs.mask_mode == SoftmaxMask::kReplace && mask(j) == 0) return a.attrs.value;
    return x;
  }
};

void attend(const Query& query) {
  const AttentionAttrs& at = query.a.attrs;
  float* const dst = query.a.dst.row(query.row) + at.y.at(query.head, query.query);
  if (at.counted != 0 && query.mask(query.query) == 0) {
    for (int64_t c = 0; c < at.value_dim; ++c) dst[c] = 0;
    return;
  }
  double weight[kMaxAttentionKeys];
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t j = 0; j < at.keys; ++j) {
    weight[j] = query.excluded(j) ? 0 : query.score(j);
    if (!query.excluded(j) && !(weight[j] <= top)) top = weight[j];  // keeps a NaN
  }
  for (int64_t j = 0; j < at.keys; ++j) {
    weight[j] = query.excluded(j) ? 0 : std::exp(weight[j] - top);
    sum += weight[j];
  }
  for (int64_t c = 0; c < at.value_dim; ++c) {
    double y = 0;
    for (int64_t j = 0; j < at.keys; ++j) {
      if (!query.excluded(j)) y += weight[j] / sum * query.a.v.row(query.row)[at.v.at(query.head, j) + c];
    }
    dst[c] = static_cast<float>(y);
  }
}

}  // namespace

void attention(const AttentionArgs& a) {
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t h = 0; h < a.attrs.heads; ++h) {
      for (int64_t i = 0; i < a.attrs.queries; ++i) attend({a, r, h, i});
    }
  }
}

}  // namespace dpi::kernels::ref
