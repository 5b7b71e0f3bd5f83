#include <dpi/kernels/attention.hpp>

#include <cmath>
#include <limits>

namespace dpi::kernels::ref {
namespace {

constexpr int64_t kColumns = 64;  // of a result, computed together

// One query of one head.
struct Query {
  const AttentionArgs& a;
  int64_t row;
  int64_t head;
  int64_t query;

  double mask(int64_t j) const {
    return a.mask.row(row)[head * a.attrs.mask_head + query * a.attrs.mask_query + j];
  }
  bool out_of_reach(int64_t j) const {
    return a.attrs.streamed != 0 && j >= keys_read(a.attrs, query) && j != own_key(a.attrs, query);
  }
  bool excluded(int64_t j) const {
    return out_of_reach(j) || (a.attrs.mask_mode == SoftmaxMask::kNinf && mask(j) == 0);
  }

  double score(int64_t j) const {
    const float* const q = a.q.row(row) + a.attrs.q.at(head, query);
    const float* const k = a.key(row, head, j);
    double sum = 0;
    for (int64_t c = 0; c < a.attrs.dim; ++c) sum += double{q[c]} * k[c];
    double x = a.attrs.scale * sum;
    if (a.attrs.biased != 0) x += a.bias.row(row)[a.attrs.bias.at(head, query) + j];
    if (a.attrs.mask_mode == SoftmaxMask::kAdd) return static_cast<float>(x + a.attrs.value * (1 - mask(j)));
    if (a.attrs.mask_mode == SoftmaxMask::kReplace && mask(j) == 0) return a.attrs.value;
    return x;
  }
};

/// Numbers that turn the scores of a query into weights.
struct Weighing {
  double top = -std::numeric_limits<double>::infinity();  // softmax
  double sum = 0;
  bool of_all = false;  // the mean of all values
};

Weighing weighing_of(const Query& query) {
  const AttentionAttrs& at = query.a.attrs;
  Weighing w;
  if (at.form == AttentionForm::kSilu) return w;
  for (int64_t j = 0; j < at.keys; ++j) {
    if (query.excluded(j)) continue;
    const double x = query.score(j);
    if (!(x <= w.top)) w.top = x;  // keeps a NaN
  }
  if (at.streamed != 0 && w.top == -std::numeric_limits<double>::infinity()) {
    w.top = 0;
    w.of_all = at.mean_of_none != 0;
  }
  for (int64_t j = 0; j < at.keys; ++j) {
    if (!query.excluded(j)) w.sum += std::exp(query.score(j) - w.top);
  }
  return w;
}

double weight_of(const Query& query, const Weighing& w, int64_t j) {
  const AttentionAttrs& at = query.a.attrs;
  const double x = query.score(j);
  if (at.form == AttentionForm::kSilu)
    return std::isinf(x) && x < 0 ? 0 : x / (1 + std::exp(-x)) / at.divisor;
  return w.sum == 0 ? 0 : std::exp(x - w.top) / w.sum;
}

/// Columns [first, first + n) of a result.
void add_up(const Query& query, const Weighing& w, int64_t first, int64_t n, float* dst) {
  const AttentionAttrs& at = query.a.attrs;
  double y[kColumns] = {};
  for (int64_t j = 0; j < at.keys; ++j) {
    if (!w.of_all && query.excluded(j)) continue;
    const double weight = w.of_all ? 1.0 / static_cast<double>(at.keys) : weight_of(query, w, j);
    const float* const v = query.a.value(query.row, query.head, j) + first;
    for (int64_t c = 0; c < n; ++c) y[c] += weight * v[c];
  }
  for (int64_t c = 0; c < n; ++c) dst[first + c] = static_cast<float>(y[c]);
}

void attend(const Query& query) {
  const AttentionAttrs& at = query.a.attrs;
  float* const dst = query.a.dst.row(query.row) + at.y.at(query.head, query.query);
  if (at.counted != 0 && query.mask(query.query) == 0) {
    for (int64_t c = 0; c < at.value_dim; ++c) dst[c] = 0;
    return;
  }
  const Weighing w = weighing_of(query);
  for (int64_t c = 0; c < at.value_dim; c += kColumns)
    add_up(query, w, c, at.value_dim - c < kColumns ? at.value_dim - c : kColumns, dst);
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
