// The format's Attention: a block of the keys that count is turned into a matrix of columns, and passes by
// all queries that read any of it, some of them at once. What a query has added up so far lies in its result;
// of a softmax, the largest score and the sum of weights lie beside it, and all three are scaled when a block
// has a larger score. Scratch grows with the queries by two floats each, with the keys not at all.
//
// A row's bits depend on nothing but the row: blocks are cut by its own keys, and each number is one sequence
// of fused multiply-adds over them.
#include "kernels/cpu/attention_tile.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kBlock = kMaxAttentionKeys;  // keys that are turned together
constexpr int64_t kMostTogether = 64;          // queries of rows that share keys, unless one row has more
constexpr float kLow = -__builtin_inff();      // the score of a key that does not count

/// One head of one row, or of some rows behind one another whose first keys are the same ones (prefix). Query
/// i of the r-th row has the number r queries + i.
struct Stream {
  const AttentionAttrs* attrs;
  const AttentionArgs* args;
  int64_t row, rows;
  int64_t h;
  // scratch
  float* turned;       // [dim, kBlock]
  float* weights;      // [kTile, kBlock]
  float* top;          // [rows, queries]: the largest score so far
  float* sum;          // [rows, queries]: of the weights so far
  float* mean;         // [value_dim]
  int32_t* keys;       // of the block, rising, from `base` on
  int64_t base;        // the prefix, or 0 for keys of it
  int64_t n;           // of them
  const float *k, *v;  // where they lie, and their values
  bool in_line;        // one beside the other
};

DPI_INLINE int64_t history_of(const AttentionAttrs& a) { return a.keys - a.candidates; }
DPI_INLINE bool is_softmax(const AttentionAttrs& a) { return a.form == AttentionForm::kSoftmax; }

/// Rows of a query's number, and which of theirs it is.
struct Place {
  int64_t row, query;
};
DPI_INLINE Place place_of(const Stream& t, int64_t number) {
  const int64_t r = t.rows == 1 ? 0 : number / t.attrs->queries;
  return {t.row + r, number - r * t.attrs->queries};
}
/// The mask's first query of a row, or null.
DPI_INLINE const float* mask_of(const Stream& t, int64_t row) {
  return t.args->mask.data == nullptr ? nullptr : row_of(t.args->mask, row);
}
DPI_INLINE bool key_counts(const Stream& t, int64_t row, int64_t j) {
  const float* const mask = mask_of(t, row);
  return mask == nullptr || t.attrs->mask_query != 0 || mask[j] != 0;
}
DPI_INLINE bool asked(const Stream& t, const Place& at) {
  // The op's check (sdk/src/ops/attention.cpp) refuses `counted` without a mask.
  return t.attrs->counted == 0 ||
         mask_of(t, at.row)[at.query] != 0;  // NOLINT(clang-analyzer-core.NullDereference)
}
DPI_INLINE float* result_of(const Stream& t, const Place& at) {
  return row_of(t.args->dst, at.row) + t.attrs->y.first + t.h * t.attrs->y.head +
         at.query * t.attrs->y.position;
}

/// How many keys of the block a query reads.
DPI_INLINE int64_t reach_of(const Stream& t, int64_t query) {
  const int64_t i = t.attrs->before + query - t.base;
  if (t.attrs->causal == 0 || i >= t.keys[t.n - 1]) return t.n;
  if (i < t.keys[0]) return 0;
  if (t.in_line) return i - t.keys[0] + 1;
  int64_t low = 0, high = t.n - 1;  // keys[low] <= i < keys[high]
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (t.keys[middle] <= i ? low : high) = middle;
  }
  return low + 1;
}

// ---- a tile of queries and a block of keys

/// Scores of a query: bias added, kLow where a key does not count, up to the last vector of n keys.
DPI_INLINE void finish_scores(const Stream& t, const Place& at, int64_t n, float* scores) {
  const AttentionAttrs& a = *t.attrs;
  const int64_t reach = reach_of(t, at.query);
  const float* const bias = t.args->bias.data == nullptr
                                ? nullptr
                                : row_of(t.args->bias, at.row) + a.bias.at(t.h, at.query) + t.base;
  if (bias != nullptr && !t.in_line) {
    for (int64_t j = 0; j < reach; ++j) scores[j] += bias[t.keys[j]];
  }
  const bool beside = bias != nullptr && t.in_line;
  const float* const pairs =
      a.mask_query != 0 ? mask_of(t, at.row) + at.query * a.mask_query + t.base + t.keys[0] : nullptr;
  for (int64_t j = 0; j < n; j += Vec::W) {
    const int64_t some = min_of<int64_t>(reach - j, Vec::W);
    if (some <= 0) {
      Vec::all(kLow).store(scores + j);
      continue;
    }
    Vec x = Vec::load(scores + j);
    if (beside) x = x + load_n(bias + t.keys[0] + j, some);
    if (pairs != nullptr) x = select(load_n(pairs + j, some) == Vec::zero(), Vec::all(kLow), x);
    if (some < Vec::W) x = select(load_n(kOnes, some) == Vec::zero(), Vec::all(kLow), x);
    x.store(scores + j);
  }
}

/// Scores become weights; scale: what the query's result so far is worth beside them.
DPI_INLINE void weigh_softmax(const Stream& t, int64_t i, int64_t n, float* scores, float* scale) {
  const Vec low = Vec::all(kLow);
  Vec most = low;
  for (int64_t j = 0; j < n; j += Vec::W) most = max(Vec::load(scores + j), most);
  const float top = max_of(most.largest(), t.top[i]);
  const Vec high = Vec::all(top == kLow ? 0.0f : top);
  Vec sum = Vec::zero();
  for (int64_t j = 0; j < n; j += Vec::W) {
    const Vec x = Vec::load(scores + j);
    const Vec e = select(x == low, Vec::zero(), exp(x - high));
    e.store(scores + j);
    sum = sum + e;
  }
  float gone[Vec::W];
  exp(Vec::all(t.top[i]) - high).store(gone);
  *scale = t.top[i] == kLow ? 0.0f : gone[0];
  t.sum[i] = t.sum[i] * *scale + sum.sum();
  t.top[i] = top;
}

DPI_INLINE void weigh_silu(int64_t n, float divisor, float* scores) {
  const Vec low = Vec::all(kLow), by = Vec::all(divisor);
  for (int64_t j = 0; j < n; j += Vec::W) {
    const Vec x = Vec::load(scores + j);
    select(x == low, Vec::zero(), x * sigmoid(x) / by).store(scores + j);
  }
}

/// dst[r] = worth[r] dst[r] + a[r] b for r < n, each once: `tile` has the last one several times.
DPI_INLINE void add_up(int64_t n, const float* const* a, const Rows& b, int64_t columns, const float* worth,
                       float* const* dst) {
  constexpr int kHalf = kTile / 2;
  if (n == kTile) return all_columns<Into::kSum, kTile>(a, b, columns, worth, dst);
  int64_t r = n >= kHalf ? kHalf : 0;
  if (r > 0) all_columns<Into::kSum, kHalf>(a, b, columns, worth, dst);
  for (; r < n; ++r) all_columns<Into::kSum, 1>(a + r, b, columns, worth + r, dst + r);
}

/// The queries of n numbers. The last one reads as many keys as any of them.
void attend(const Stream& t, const int32_t* numbers, int64_t n) {
  const AttentionAttrs& a = *t.attrs;
  const float *q[kTile], *weight[kTile];
  float *score[kTile], *dst[kTile], scale[kTile], worth[kTile];
  Place places[kTile];
  for (int r = 0; r < kTile; ++r) {
    const int64_t at = min_of<int64_t>(r, n - 1);
    const Place place = places[r] = place_of(t, numbers[at]);
    q[r] = position_of(row_of(t.args->q, place.row), a.q, t.h, place.query);
    dst[r] = result_of(t, place);
    weight[r] = score[r] = t.weights + at * kBlock;
    scale[r] = a.scale;
    worth[r] = 1;
  }
  const int64_t keys = reach_of(t, places[n - 1].query), columns = whole_vectors(keys);
  tile<Into::kPlace>(n, q, {t.turned, nullptr, kBlock, a.dim}, columns, scale, score);
  for (int64_t r = 0; r < n; ++r) {
    finish_scores(t, places[r], columns, score[r]);
    if (is_softmax(a))
      weigh_softmax(t, numbers[r], columns, score[r], &worth[r]);
    else
      weigh_silu(columns, a.divisor, score[r]);
  }
  add_up(n, weight, {t.v, t.keys, a.v.position, keys}, a.value_dim, worth, dst);
}

/// The block passes by the queries [first, last) of a row, or of all rows. Where it lies behind the prefix it
/// is one row's; all queries of a row that has one stand behind it.
void pass_by(Stream& t, int64_t first, int64_t last) {
  if (t.n == 0) return;
  const AttentionAttrs& a = *t.attrs;
  t.in_line = t.keys[t.n - 1] - t.keys[0] == t.n - 1;
  turn_keys(t.k, {0, 0, a.k.position}, 0, t.keys, t.n, a.dim, kBlock, t.turned);
  int32_t list[kTile];
  int64_t n = 0;
  for (int64_t i = first; i < last; ++i) {
    const Place place = place_of(t, i);
    if (reach_of(t, place.query) == 0 || !asked(t, place)) continue;
    list[n++] = static_cast<int32_t>(i);
    if (n < kTile) continue;
    attend(t, list, n);
    n = 0;
  }
  if (n > 0) attend(t, list, n);
}

/// Keys [first, last) of the r-th row, for its queries or, of the prefix, for those of all rows.
void read_keys(Stream& t, int64_t r, int64_t first, int64_t last, int64_t begin, int64_t end) {
  t.base = first < t.attrs->prefix ? 0 : t.attrs->prefix;
  t.k = t.args->key(t.row + r, t.h, t.base);
  t.v = t.args->value(t.row + r, t.h, t.base);
  t.n = 0;
  for (int64_t j = first; j < last; ++j) {
    if (!key_counts(t, t.row + r, j)) continue;
    t.keys[t.n++] = static_cast<int32_t>(j - t.base);
    if (t.n < kBlock) continue;
    pass_by(t, begin, end);
    t.n = 0;
  }
  pass_by(t, begin, end);
}

/// Each candidate is a block of its own, for its own query.
void read_own(Stream& t, int64_t r) {
  const AttentionAttrs& a = *t.attrs;
  const int64_t first = r * a.queries;
  if (a.prefix < history_of(a)) read_keys(t, r, a.prefix, history_of(a), first, first + a.queries);
  for (int64_t j = history_of(a); j < a.keys; ++j)
    read_keys(t, r, j, j + 1, first + j - a.before, first + j - a.before + 1);
}

// ---- a head

/// The mean of all values, for queries without a key.
void mean_of(Stream& t, int64_t row) {
  const AttentionAttrs& a = *t.attrs;
  const Vec keys = Vec::all(static_cast<float>(a.keys));
  for_vectors(a.value_dim, [&](int64_t c, int64_t n) {
    Vec sum = Vec::zero();
    for (int64_t j = 0; j < a.keys; ++j) sum = sum + load_n(t.args->value(row, t.h, j) + c, n);
    store_n(t.mean + c, sum / keys, n);
  });
}

void begin(Stream& t) {
  const AttentionAttrs& a = *t.attrs;
  for (int64_t i = 0; i < t.rows * a.queries; ++i) {
    float* const dst = result_of(t, place_of(t, i));
    for_vectors(a.value_dim, [&](int64_t c, int64_t n) { store_n(dst + c, Vec::zero(), n); });
    t.top[i] = kLow;
    t.sum[i] = 0;
  }
}

void finish(Stream& t) {
  const AttentionAttrs& a = *t.attrs;
  int64_t mean = -1;  // of which row t.mean is
  for (int64_t i = 0; i < t.rows * a.queries && is_softmax(a); ++i) {
    const Place place = place_of(t, i);
    if (!asked(t, place)) continue;
    float* const dst = result_of(t, place);
    if (t.sum[i] == 0) {
      if (a.mean_of_none == 0) continue;
      if (mean != place.row) mean_of(t, place.row);
      mean = place.row;
      copy_floats(dst, t.mean, a.value_dim);
      continue;
    }
    const Vec by = Vec::all(1.0f / t.sum[i]);
    for_vectors(a.value_dim, [&](int64_t c, int64_t n) { store_n(dst + c, load_n(dst + c, n) * by, n); });
  }
}

/// Queries that are computed together: of one row, or of rows that share keys.
int64_t together(const AttentionAttrs& a) {
  return a.prefix == 0 ? a.queries : max_of<int64_t>(a.queries, kMostTogether / a.queries * a.queries);
}

/// The number of rows from `row` on that have the same keys in front.
int64_t rows_from(const AttentionArgs& a, int64_t row) {
  const int64_t most = min_of<int64_t>(together(a.attrs) / a.attrs.queries, a.dst.rows - row);
  const auto shared = [&](int64_t r) { return a.row_map == nullptr ? r : a.row_map[r]; };
  const bool by_key = a.mask.data != nullptr && a.attrs.mask_query == 0;
  int64_t n = 1;
  for (; n < most && shared(row + n) == shared(row); ++n) {
    if (!by_key) continue;
    const float *const x = row_of(a.mask, row), *const y = row_of(a.mask, row + n);
    int64_t j = 0;
    while (j < a.attrs.prefix && (x[j] != 0) == (y[j] != 0)) ++j;
    if (j < a.attrs.prefix) break;
  }
  return n;
}

void attend_head(Stream& t) {
  const AttentionAttrs& a = *t.attrs;
  begin(t);
  if (a.prefix > 0) read_keys(t, 0, 0, min_of(a.prefix, history_of(a)), 0, t.rows * a.queries);
  for (int64_t r = 0; r < t.rows; ++r) read_own(t, r);
  finish(t);
}

}  // namespace

int64_t attention_stream_floats(const AttentionAttrs& a) {
  return (a.dim + kTile + 1) * kBlock + whole_vectors(2 * together(a)) + whole_vectors(a.value_dim);
}

void attention_stream(const AttentionArgs& a) {
  Stream t{};
  t.attrs = &a.attrs;
  t.args = &a;
  t.turned = static_cast<float*>(a.scratch);
  t.weights = t.turned + a.attrs.dim * kBlock;
  t.keys = reinterpret_cast<int32_t*>(t.weights + kTile * kBlock);
  t.mean = t.weights + (kTile + 1) * kBlock;
  t.top = t.mean + whole_vectors(a.attrs.value_dim);
  t.sum = t.top + together(a.attrs);
  for (t.row = 0; t.row < a.dst.rows; t.row += t.rows) {
    t.rows = a.attrs.prefix == 0 ? 1 : rows_from(a, t.row);
    for (t.h = 0; t.h < a.attrs.heads; ++t.h) attend_head(t);
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
