#include <dpi/kernels/embed.hpp>

#include "kernels/cpu/pool.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kAhead = 8;  // rows of a bag that are asked for before they are read

template <DType T>
DPI_INLINE void decode_as(const TableView& t, int64_t id, float* dst) {
  const char* row = table_row(t, id);
  const RowScale scale = row_scale<T>(t, id);
  for_vectors(t.dim, [&](int64_t i, int64_t n) { store_n(dst + i, load_row<T>(row, scale, i, n), n); });
}

/// The row's components added in float32, in order.
bool row_is_nonzero(const TableView& t, int64_t id) {
  if (t.nonzero != nullptr) return ((t.nonzero[id / 64] >> (id % 64)) & 1u) != 0;
  float sum = 0;
  with_dtype(t.dtype, [&]<DType T>() {
    for_vectors(t.dim, [&](int64_t i, int64_t n) {
      float part[Vec::W];
      load_row<T>(table_row(t, id), row_scale<T>(t, id), i, n).store(part);
      for (int64_t k = 0; k < n; ++k) sum += part[k];
    });
  });
  return sum != 0;
}

/// Positions beyond the bag are padding (rule kNone only), with weight 1.
struct Positions {
  const EmbedAttrs& attrs;
  const Bag& bag;
  const TableView& table;

  DPI_INLINE int64_t count() const { return attrs.mask == MaskRule::kNone ? attrs.max_len : bag.n; }
  DPI_INLINE int64_t id(int64_t t) const { return t < bag.n ? bag.ids[t] : attrs.pad_id; }
  DPI_INLINE float weight(int64_t t) const {
    return t < bag.n && bag.weights != nullptr ? bag.weights[t] : 1.0f;
  }
  /// True if the position joins the sum or the maximum.
  DPI_INLINE bool joins(int64_t t) const { return attrs.mask != MaskRule::kId || id(t) != attrs.pad_id; }
  DPI_INLINE bool counts(int64_t t) const {
    return attrs.mask == MaskRule::kNonzero ? row_is_nonzero(table, id(t)) : joins(t);
  }
  DPI_INLINE void prefetch(int64_t t) const {
    if (t + kAhead < bag.n) prefetch_row(table, bag.ids[t + kAhead]);
  }
};

/// The divisor of a mean; *any: something counts.
float divisor_of(const Positions& p, bool* any) {
  const bool plain = p.attrs.mask == MaskRule::kLength && p.bag.weights == nullptr;
  float sum = plain ? static_cast<float>(p.bag.n) : 0.0f;
  *any = plain && p.bag.n > 0;
  for (int64_t t = 0; !plain && t < p.count(); ++t) {
    if (!p.counts(t)) continue;
    sum += p.weight(t);
    *any = true;
  }
  return sum + p.attrs.eps;
}

template <DType T>
DPI_INLINE void pool_sum(const Positions& p, float* dst) {
  const TableView& table = p.table;
  float factor = 1.0f;
  if (p.attrs.pooling == Pooling::kMean) {
    bool any = false;
    const float divisor = divisor_of(p, &any);
    factor = any ? 1.0f / divisor : 0.0f;
    if (!any) {
      for_vectors(table.dim, [&](int64_t i, int64_t n) { store_n(dst + i, Vec::zero(), n); });
      return;
    }
  }
  const bool plain = p.attrs.mask == MaskRule::kLength && p.bag.weights == nullptr;
  for_vectors(table.dim, [&](int64_t i, int64_t n) {
    Vec sum = Vec::zero();
    for (int64_t t = 0; t < (plain ? p.bag.n : 0); ++t) {
      if (i == 0) p.prefetch(t);
      const int64_t id = p.bag.ids[t];
      sum = sum + load_row<T>(table_row(table, id), row_scale<T>(table, id), i, n);
    }
    for (int64_t t = 0; t < (plain ? 0 : p.count()); ++t) {
      if (i == 0) p.prefetch(t);
      if (!p.joins(t)) continue;
      const int64_t id = p.id(t);
      sum = fma(Vec::all(p.weight(t)), load_row<T>(table_row(table, id), row_scale<T>(table, id), i, n), sum);
    }
    store_n(dst + i, sum * Vec::all(factor), n);
  });
}

template <DType T>
DPI_INLINE void pool_max(const Positions& p, float* dst) {
  for_vectors(p.table.dim, [&](int64_t i, int64_t n) {
    Vec best = Vec::all(p.attrs.empty);
    bool any = false;
    for (int64_t t = 0; t < p.count(); ++t) {
      if (i == 0) p.prefetch(t);
      if (!p.counts(t)) continue;
      const int64_t id = p.id(t);
      const Vec v = load_row<T>(table_row(p.table, id), row_scale<T>(p.table, id), i, n);
      best = any ? max(v, best) : v;
      any = true;
    }
    store_n(dst + i, best, n);
  });
}

}  // namespace

void decode_row(const TableView& table, int64_t id, float* dst) {
  with_dtype(table.dtype, [&]<DType T>() { decode_as<T>(table, id, dst); });
}

void pool_bag(const EmbedAttrs& attrs, const Bag& bag, const TableView& table, float* dst) {
  const Positions p{attrs, bag, table};
  with_dtype(table.dtype, [&]<DType T>() {
    if (attrs.pooling == Pooling::kSingle) {
      decode_as<T>(table, bag.ids[0], dst);
    } else if (attrs.pooling == Pooling::kMax) {
      pool_max<T>(p, dst);
    } else {
      pool_sum<T>(p, dst);
    }
  });
}

/// dst: [rows, max_len, dim] for kNone: position t holds its id's row, padding holds pad_id's.
void embed(const EmbedArgs& a) {
  const int64_t dim = a.table.dim, max_len = a.attrs.max_len;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const Bag bag = bag_at(a.ids, r);
    float* dst = row_of(a.dst, r);
    if (a.attrs.pooling != Pooling::kNone) {
      if (a.attrs.pooling == Pooling::kSingle && r + kAhead < a.dst.rows) {
        prefetch_row(a.table, bag_at(a.ids, r + kAhead).ids[0]);
      }
      pool_bag(a.attrs, bag, a.table, dst);
      continue;
    }
    const int64_t begin = a.attrs.pad_side == PadSide::kPre ? max_len - bag.n : 0;
    for (int64_t t = 0; t < max_len; ++t) {
      const int64_t i = t - begin;
      if (i + kAhead >= 0 && i + kAhead < bag.n) prefetch_row(a.table, bag.ids[i + kAhead]);
      decode_row(a.table, i >= 0 && i < bag.n ? bag.ids[i] : a.attrs.pad_id, dst + t * dim);
    }
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
