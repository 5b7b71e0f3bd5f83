// MultiLookup. Rows are taken in tiles, a tile field by field: what a field needs (type, width, pooling) is
// decided once per tile, and all ids are known beforehand, so that the rows of the unit kUnitsAhead later are
// asked for before a unit is read.
#include <dpi/kernels/multi_lookup.hpp>

#include "kernels/cpu/pool.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kTile = 16;
constexpr int64_t kMaxFmDim = 512;
constexpr int64_t kUnitsAhead = 4;       // of kTile lookups each
constexpr int64_t kPrefetchIds = 64;     // of a tile's bags; within a bag the pooling looks ahead itself
constexpr int64_t kMaxRowFloats = 2048;  // of a pooled row that has no column in the output

/// Rows [first, first + rows), rows <= kTile. sum: S of each row, [kTile, fm_dim]; squares: sum of |e|^2 of
/// kWithSquares fields.
struct Tile {
  const MultiLookupArgs& a;
  int64_t first;
  int64_t rows;
  float* sum;
  float* squares;
  float* spare;  // [kMaxRowFloats]

  DPI_INLINE float* out(int64_t r, int32_t col) const { return row_of(a.out, first + r) + col; }
  DPI_INLINE float* chan(int64_t r) const { return row_of(a.chan, first + r); }
  DPI_INLINE float* fm(int64_t r) const { return sum + r * a.attrs.fm_dim; }
};

DPI_INLINE void add_floats(float* dst, const float* x, int64_t n) {
  for_vectors(n, [&](int64_t i, int64_t k) { store_n(dst + i, load_n(dst + i, k) + load_n(x + i, k), k); });
}

/// One id per row: the row goes to the output and, kFm, into S, in one pass.
template <DType T, bool kOut, bool kFm>
void single_rows(const Tile& t, const LookupField& f) {
  const TableView table = t.a.tables[f.table];
  const Bags& bags = t.a.inputs[f.input].bags;
  for (int64_t r = 0; r < t.rows; ++r) {
    const int64_t id = bag_at(bags, t.first + r).ids[0];
    const char* row = table_row(table, id);
    const Vec scale = row_scale(table, id);
    float* out = kOut ? t.out(r, f.out_col) : nullptr;
    float* sum = kFm ? t.fm(r) : nullptr;
    for_vectors(table.dim, [&](int64_t i, int64_t n) {
      const Vec e = load_row<T>(row, scale, i, n);
      if constexpr (kOut) store_n(out + i, e, n);
      if constexpr (kFm) store_n(sum + i, load_n(sum + i, n) + e, n);
    });
  }
}

template <DType T>
void single_as(const Tile& t, const LookupField& f) {
  const bool out = f.out_col >= 0 && t.a.out.data != nullptr;
  if (f.fm == FmRole::kNone) {
    if (out) single_rows<T, true, false>(t, f);
  } else {
    out ? single_rows<T, true, true>(t, f) : single_rows<T, false, true>(t, f);
  }
}

void single_field(const Tile& t, const LookupField& f) {
  switch (t.a.tables[f.table].dtype) {
    case DType::kF32:
      return single_as<DType::kF32>(t, f);
    case DType::kF16:
      return single_as<DType::kF16>(t, f);
    case DType::kBF16:
      return single_as<DType::kBF16>(t, f);
    case DType::kI8:
      return single_as<DType::kI8>(t, f);
  }
}

void pooled_field(const Tile& t, const LookupField& f) {
  const TableView& table = t.a.tables[f.table];
  const bool out = f.out_col >= 0 && t.a.out.data != nullptr;
  for (int64_t r = 0; r < t.rows; ++r) {
    float* e = out ? t.out(r, f.out_col) : t.spare;
    pool_bag(f.embed, bag_at(t.a.inputs[f.input].bags, t.first + r), table, e);
    if (f.fm != FmRole::kNone) add_floats(t.fm(r), e, table.dim);
    if (f.fm == FmRole::kWithSquares) t.squares[r] += dot(e, e, table.dim);
  }
}

void scalar_field(const Tile& t, const ScalarField& f) {
  TableView table = t.a.tables[f.table];
  table.dim = f.count;
  const Bags& bags = t.a.inputs[f.input].bags;
  const bool direct = f.embed.pooling == Pooling::kSingle && table.dtype == DType::kF32;
  for (int64_t r = 0; r < t.rows; ++r) {
    const Bag bag = bag_at(bags, t.first + r);
    float* chan = t.chan(r) + f.first_channel;
    if (direct) {
      add_floats(chan, reinterpret_cast<const float*>(table_row(table, bag.ids[0])), f.count);
      continue;
    }
    // The `nonzero` rule is about the whole row.
    pool_bag(f.embed, bag, f.embed.mask == MaskRule::kNonzero ? t.a.tables[f.table] : table, t.spare);
    add_floats(chan, t.spare, f.count);
  }
}

DPI_INLINE void numeric_vector(const Tile& t, const NumericField& f, int64_t r, const float* x) {
  const float* v = f.vec >= 0 ? t.a.numeric_vec.data + f.vec : x;
  const Vec factor = Vec::all(f.vec >= 0 ? x[0] : 1.0f);
  float* out = f.out_col >= 0 && t.a.out.data != nullptr ? t.out(r, f.out_col) : nullptr;
  float* sum = f.fm != FmRole::kNone ? t.fm(r) : nullptr;
  for_vectors(f.dim, [&](int64_t i, int64_t n) {
    const Vec e = load_n(v + i, n) * factor;
    if (out != nullptr) store_n(out + i, e, n);
    if (sum != nullptr) store_n(sum + i, load_n(sum + i, n) + e, n);
  });
}

void numeric_field(const Tile& t, const NumericField& f) {
  const Tensor& input = t.a.inputs[f.input].tensor;
  const int64_t channels = t.a.attrs.n_channels;
  for (int64_t r = 0; r < t.rows; ++r) {
    const float* x = row_of(input, t.first + r);
    numeric_vector(t, f, r, x);
    if (f.coef < 0) continue;
    const float* lin = t.a.numeric_coef.data + f.coef;
    const float* quad = lin + channels;
    const Vec v = Vec::all(x[0]);
    float* chan = t.chan(r);
    for_vectors(channels, [&](int64_t i, int64_t n) {
      const Vec slope = fma(v, load_n(quad + i, n), load_n(lin + i, n));
      store_n(chan + i, fma(v, slope, load_n(chan + i, n)), n);
    });
  }
}

void start_rows(const Tile& t) {
  const MultiLookupAttrs& attrs = t.a.attrs;
  for (int64_t r = 0; r < t.rows; ++r) {
    for (int32_t c = 0; c < attrs.n_channels; ++c) {
      t.chan(r)[c] = t.a.channel_bias.data == nullptr ? 0.0f : t.a.channel_bias.data[c];
    }
    t.squares[r] = 0;
    for (int64_t i = 0; i < attrs.fm_dim; ++i) t.fm(r)[i] = 0;
  }
}

void finish_rows(const Tile& t) {
  const MultiLookupAttrs& attrs = t.a.attrs;
  if (attrs.fm_channel < 0) return;
  for (int64_t r = 0; r < t.rows; ++r) {
    const float s = dot(t.fm(r), t.fm(r), attrs.fm_dim);
    t.chan(r)[attrs.fm_channel] += 0.5f * (s - t.squares[r]);
  }
}

/// Unit `u` of all units of the call: field u % n of tile u / n; scalar fields follow the embedding fields.
void prefetch_unit(const MultiLookupArgs& a, int64_t tile, int64_t unit) {
  const int64_t first = tile * kTile;
  const int64_t rows = min_of(kTile, a.rows - first);
  if (rows <= 0) return;
  const bool scalar = unit >= a.attrs.n_fields;
  const ScalarField* s = scalar ? a.attrs.scalars + (unit - a.attrs.n_fields) : nullptr;
  const LookupField* f = scalar ? nullptr : a.attrs.fields + unit;
  TableView table = a.tables[scalar ? s->table : f->table];
  if (scalar) table.dim = s->count;
  const Bags& bags = a.inputs[scalar ? s->input : f->input].bags;
  if (bags.offsets == nullptr) {
    for (int64_t r = 0; r < rows; ++r) prefetch_row(table, bags.ids[(first + r) * bags.stride]);
    return;
  }
  const int64_t begin = bags.offsets[first];
  const int64_t end = min_of<int64_t>(bags.offsets[first + rows], begin + kPrefetchIds);
  for (int64_t i = begin; i < end; ++i) prefetch_row(table, bags.ids[i]);
}

void run_unit(const Tile& t, int64_t unit) {
  const MultiLookupAttrs& attrs = t.a.attrs;
  if (unit >= attrs.n_fields) {
    scalar_field(t, attrs.scalars[unit - attrs.n_fields]);
    return;
  }
  const LookupField& f = attrs.fields[unit];
  const bool squares = f.fm == FmRole::kWithSquares;
  f.embed.pooling == Pooling::kSingle && !squares ? single_field(t, f) : pooled_field(t, f);
}

}  // namespace

/// Whether the sizes fit the tile's buffers; the backend takes the reference otherwise.
bool multi_lookup_fits(const MultiLookupAttrs& attrs, int64_t max_dim) {
  return attrs.fm_dim <= kMaxFmDim && max_dim <= kMaxRowFloats;
}

void multi_lookup(const MultiLookupArgs& a) {
  alignas(64) float sum[kTile * kMaxFmDim];
  alignas(64) float spare[kMaxRowFloats];
  float squares[kTile];
  const int64_t units = int64_t{a.attrs.n_fields} + a.attrs.n_scalars;
  for (int64_t u = 0; u < min_of(units, kUnitsAhead); ++u) prefetch_unit(a, 0, u);
  for (int64_t first = 0; first < a.rows; first += kTile) {
    const Tile t{a, first, min_of(kTile, a.rows - first), sum, squares, spare};
    start_rows(t);
    for (int64_t u = 0; u < units; ++u) {
      const int64_t ahead = u + kUnitsAhead;
      prefetch_unit(a, first / kTile + ahead / units, ahead % units);
      run_unit(t, u);
    }
    for (int32_t i = 0; i < a.attrs.n_numerics; ++i) numeric_field(t, a.attrs.numerics[i]);
    finish_rows(t);
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
