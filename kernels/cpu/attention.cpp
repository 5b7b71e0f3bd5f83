// Attention as the plan has it (the format's: attention_stream.cpp), a head of a row at a time: keys that
// count are turned into a matrix of columns, some queries at once become a tile of scores, which the softmax
// leaves as weights, and the weights times the values are the results. Nothing is as long as keys x queries,
// and what the mask leaves out is left out.
//
// Every number is one sequence of fused multiply-adds, over the columns or over the keys that count, in their
// order: a row's bits depend on nothing but the row.
#include <dpi/kernels/attention.hpp>

#include "kernels/cpu/attention_tile.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

/// Scratch memory of one call.
struct Scratch {
  float* turned;   // [dim, whole_vectors(keys)]: columns of the keys that count
  float* weights;  // [kTile, whole_vectors(keys)]
  int32_t* keys;   // those that count, in order
  int32_t* queries;
};

Scratch scratch_of(void* memory, const AttentionAttrs& a) {
  auto* const at = static_cast<float*>(memory);
  const int64_t ld = whole_vectors(a.keys);
  auto* const lists = reinterpret_cast<int32_t*>(at + (a.dim + kTile) * ld);
  return {at, at + a.dim * ld, lists, lists + a.keys};
}

/// One head of one row.
struct Head {
  const AttentionAttrs* attrs;
  const float *q, *k, *v;  // of the row
  const float* mask;       // of the head's first query, or null
  float* dst;
  int64_t h;
  Scratch s;
  int64_t n;         // keys that count, of s.keys
  int64_t ld;        // whole_vectors(n)
  bool mask_scores;  // the mask goes into the scores: no key is left out
};

// ---- keys

/// Lists the keys that count. False where the mask has to go into the scores instead: it differs from query
/// to query, or its value may leave something of a score, or it leaves no key.
bool list_keys(const AttentionAttrs& a, const float* mask, int32_t* keys, int64_t* n) {
  *n = 0;
  if (mask == nullptr) {
    for (; *n < a.keys; ++*n) keys[*n] = static_cast<int32_t>(*n);
    return true;
  }
  const bool drops = a.mask_mode == SoftmaxMask::kNinf || a.value <= kFarBelow;
  bool plain = a.mask_query == 0 && drops;
  for (int64_t j = 0; plain && j < a.keys; ++j) {
    keys[*n] = static_cast<int32_t>(j);
    *n += mask[j] != 0 ? 1 : 0;
    plain = a.mask_mode != SoftmaxMask::kAdd || mask[j] == 0 || mask[j] == 1;
  }
  if (plain && (*n > 0 || a.mask_mode == SoftmaxMask::kNinf)) return true;
  for (int64_t j = 0; j < a.keys; ++j) keys[j] = static_cast<int32_t>(j);
  *n = a.keys;
  return false;
}

// ---- softmax

/// The scores of a query after its mask; -infinity where a key is left out.
DPI_INLINE Vec masked(const AttentionAttrs& a, Vec x, const float* mask, int64_t n) {
  const Vec m = load_n(mask, n);
  if (a.mask_mode == SoftmaxMask::kAdd) return x + Vec::all(a.value) * (Vec::all(1.0f) - m);
  const bool drop = a.mask_mode == SoftmaxMask::kNinf;
  return select(m == Vec::zero(), Vec::all(drop ? -__builtin_inff() : a.value), x);
}

/// Scores of n queries become weights, 0 behind the last key; inverse: 1 / their sum, 1 where all are left
/// out. In passes over all queries: what one waits for the next does not.
DPI_INLINE void weigh(const Head& t, int64_t n, const float* const* mask, float* const* rows,
                      float* inverse) {
  const Vec low = Vec::all(-__builtin_inff());
  float top[kTile], all[kTile];
  Vec sum[kTile];
  const int64_t whole = t.n / Vec::W * Vec::W;
  for (int64_t r = 0; r < n; ++r) {
    Vec most = low;
    for (int64_t j = 0; t.mask_scores && j < t.n; j += Vec::W) {
      masked(*t.attrs, Vec::load(rows[r] + j), mask[r] + j, min_of<int64_t>(t.n - j, Vec::W))
          .store(rows[r] + j);
    }
    for (int64_t j = 0; j < whole; j += Vec::W) most = max(Vec::load(rows[r] + j), most);
    if (whole < t.n) {
      const Vec x = Vec::load(rows[r] + whole);
      const Vec cut = select(load_n(kOnes, t.n - whole) == Vec::zero(), low, x);
      cut.store(rows[r] + whole);
      most = max(cut, most);
    }
    top[r] = most.largest();
  }
  for (int64_t r = 0; r < n; ++r) {
    const Vec high = Vec::all(top[r] == -__builtin_inff() ? 0.0f : top[r]);
    sum[r] = Vec::zero();
    for (int64_t j = 0; j < t.ld; j += Vec::W) {
      const Vec x = Vec::load(rows[r] + j);
      const Vec e = select(x == low, Vec::zero(), exp(x - high));
      e.store(rows[r] + j);
      sum[r] = sum[r] + e;
    }
  }
  for (int64_t r = 0; r < n; ++r) all[r] = sum[r].sum();
  for (int64_t r = 0; r < n; ++r) inverse[r] = all[r] == 0 ? 1.0f : 1.0f / all[r];
}

// ---- a head

/// Queries [first, first + n) of the list.
void attend(const Head& t, int64_t first, int64_t n) {
  const AttentionAttrs& a = *t.attrs;
  const float* q[kTile];
  const float *weight[kTile], *mask[kTile];
  float *score[kTile], *dst[kTile], scale[kTile], inverse[kTile];
  for (int r = 0; r < kTile; ++r) {
    const int64_t i = min_of<int64_t>(r, n - 1), query = t.s.queries[first + i];
    q[r] = position_of(t.q, a.q, t.h, query);
    dst[r] = t.dst + a.y.first + t.h * a.y.head + query * a.y.position;
    mask[r] = t.mask_scores ? t.mask + query * a.mask_query : nullptr;
    weight[r] = score[r] = t.s.weights + i * t.ld;
    scale[r] = a.scale;
  }
  tile<Into::kPlace>(n, q, {t.s.turned, nullptr, t.ld, a.dim}, t.ld, scale, score);
  weigh(t, n, mask, score, inverse);
  for (int64_t r = n; r < kTile; ++r) inverse[r] = inverse[n - 1];
  const float* const v = position_of(t.v, a.v, t.h, 0);
  tile<Into::kPlace>(n, weight, {v, t.s.keys, a.v.position, t.n}, a.value_dim, inverse, dst);
}

/// Lists the queries that are asked for; the others' results are 0.
int64_t list_queries(const Head& t) {
  const AttentionAttrs& a = *t.attrs;
  int64_t n = 0;
  for (int64_t i = 0; i < a.queries; ++i) {
    // The op's check (sdk/src/ops/attention.cpp) refuses `counted` without a mask.
    const bool asked = a.counted == 0 || t.mask[i] != 0;  // NOLINT(clang-analyzer-core.NullDereference)
    if (asked) {
      t.s.queries[n++] = static_cast<int32_t>(i);
      continue;
    }
    float* const dst = t.dst + a.y.first + t.h * a.y.head + i * a.y.position;
    for_vectors(a.value_dim, [&](int64_t c, int64_t k) { store_n(dst + c, Vec::zero(), k); });
  }
  return n;
}

void attend_head(Head& t) {
  const AttentionAttrs& a = *t.attrs;
  t.mask_scores = !list_keys(a, t.mask, t.s.keys, &t.n);
  t.ld = whole_vectors(t.n);
  turn_keys(t.k, a.k, t.h, t.s.keys, t.n, a.dim, t.ld, t.s.turned);
  const int64_t queries = list_queries(t);
  for (int64_t i = 0; i < queries; i += kTile) attend(t, i, min_of<int64_t>(kTile, queries - i));
}

}  // namespace

int64_t attention_scratch_floats(const AttentionAttrs& a) {
  if (a.streamed != 0) return attention_stream_floats(a);
  return (a.dim + kTile) * whole_vectors(a.keys) + a.keys + a.queries;
}

void attention(const AttentionArgs& a) {
  if (a.attrs.streamed != 0) return attention_stream(a);
  Head t{};
  t.attrs = &a.attrs;
  t.s = scratch_of(a.scratch, a.attrs);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    t.q = row_of(a.q, r);
    t.k = row_of(a.k, r);
    t.v = row_of(a.v, r);
    t.dst = row_of(a.dst, r);
    for (t.h = 0; t.h < a.attrs.heads; ++t.h) {
      t.mask = a.mask.data == nullptr ? nullptr : row_of(a.mask, r) + t.h * a.attrs.mask_head;
      attend_head(t);
    }
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
