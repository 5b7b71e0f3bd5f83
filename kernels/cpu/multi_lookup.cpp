// MultiLookup. Where every field reads one row of the same kind, lookup_rows.cpp goes row by row. Elsewhere
// rows are taken in tiles, a tile field by field: what a field needs (type, width, pooling) is
// decided once per tile, and all ids are known beforehand, so that the rows of the unit kUnitsAhead later are
// asked for before a unit is read. A call of few rows asks for everything first instead.
#include <dpi/kernels/multi_lookup.hpp>

#include "kernels/cpu/lookup_tile.hpp"
#include "kernels/cpu/pool.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kTile = 32;        // rows, fewer where their sums do not fit the buffers
constexpr int64_t kSumFloats = 896;  // on the stack: callers may run on fibres with a small one
constexpr int64_t kMaxFmDim = 512;
constexpr int64_t kUnitsAhead = 2;     // of kTile lookups each
constexpr int64_t kPrefetchIds = 512;  // of a tile's bags; within a bag the pooling looks ahead itself
// Calls of so few rows ask for everything first: 39 tables of 48 floats on a Zen 5, rows from memory, 1 row
// 3.4 -> 1.0 us, 3 rows 4.2 -> 1.9, 8 rows 5.8 -> 3.6.
constexpr int64_t kFewRows = 8;

/// A unit is one field of one tile; scalar fields follow the embedding fields.
struct Unit {
  const Bags* bags;
  TableView table;
};

/// How a call is walked: rows of a tile, units of a tile and their order.
struct Walk {
  const MultiLookupArgs& a;
  int64_t tile;
  int64_t units;
  bool rides;

  DPI_INLINE int64_t in_order(int64_t u) const {
    if (!rides) return u;
    if (u >= 2 * a.attrs.n_scalars) return u - a.attrs.n_scalars;
    return u % 2 == 0 ? u / 2 : a.attrs.n_fields + u / 2;
  }
};

DPI_INLINE Unit unit_at(const MultiLookupArgs& a, int64_t unit) {
  if (unit < a.attrs.n_fields) {
    const LookupField& f = a.attrs.fields[unit];
    return {&a.inputs[f.input].bags, a.tables[f.table]};
  }
  const ScalarField& s = a.attrs.scalars[unit - a.attrs.n_fields];
  Unit u{&a.inputs[s.input].bags, a.tables[s.table]};
  u.table.dim = s.count;
  return u;
}

/// The rows of a later unit, prefetched a few at a time while an earlier unit is read: all at once they would
/// fill the processor's queue of outstanding misses.
struct Ahead {
  Unit unit;
  const int32_t* ids;
  int64_t stride;
  int64_t count;
  int64_t bytes;
  int64_t shares;  // rows of a whole tile
  bool one_hot;

  DPI_INLINE void ask_id(int64_t id) const { prefetch_row(unit.table, id, bytes); }

  /// The r-th of `shares` equal shares of the unit's rows. The output's lines are not asked for: measured,
  /// that made lookups slower.
  DPI_INLINE void ask(int64_t r) const {
    if (one_hot) {
      if (r < count) ask_id(ids[r * stride]);
      return;
    }
    const int64_t end = count * (r + 1) / shares;
    for (int64_t i = count * r / shares; i < end; ++i) ask_id(ids[i]);
  }
};

constexpr Ahead kNothingAhead{{}, nullptr, 0, 0, 0, 1, true};

Ahead ahead_at(const Walk& w, int64_t tile, int64_t unit) {
  const MultiLookupArgs& a = w.a;
  const int64_t first = tile * w.tile;
  const int64_t rows = min_of(w.tile, a.rows - first);
  if (rows <= 0) return kNothingAhead;
  const bool scalar = unit >= a.attrs.n_fields;
  const int64_t ridden = ridden_bytes(a, w.rides, scalar ? unit - a.attrs.n_fields : unit);
  if (scalar && ridden > 0) return kNothingAhead;  // asked for with its field
  Ahead ahead = kNothingAhead;
  ahead.unit = unit_at(a, unit);
  ahead.shares = w.tile;
  const Bags& bags = *ahead.unit.bags;
  ahead.one_hot = bags.offsets == nullptr;
  ahead.stride = bags.stride;
  ahead.bytes = max_of(row_data_bytes(ahead.unit.table), ridden);
  ahead.ids = bags.ids + (bags.offsets == nullptr ? first * bags.stride : bags.offsets[first]);
  ahead.count = bags.offsets == nullptr
                    ? rows
                    : min_of<int64_t>(bags.offsets[first + rows] - bags.offsets[first], kPrefetchIds);
  return ahead;
}

/// One id per row: the row goes to the output (kOut) and into FM (kFm) in one pass.
/// kVecs: whole vectors of a row, 0 = any width.
template <DType T, bool kOut, bool kFm, int kVecs>
void single_rows(const LookupTile& t, const LookupField& f, const Ahead& ahead) {
  const TableView table = t.a.tables[f.table];
  const Bags bags = t.a.inputs[f.input].bags;
  const int32_t* ids = bags.offsets == nullptr ? bags.ids + t.first * bags.stride : bags.ids;
  for (int64_t r = 0; r < t.rows; ++r) {
    ahead.ask(r);
    const int64_t id = ids[bags.offsets == nullptr ? r * bags.stride : bags.offsets[t.first + r]];
    const char* row = table_row(table, id);
    const RowScale scale = row_scale<T>(table, id);
    float* out = kOut ? t.out(r, f.out_col) : nullptr;
    FmRow fm(t, r);
    const auto move = [&](int64_t i, int64_t n) {
      const Vec e = load_row<T>(row, scale, i, n);
      if constexpr (kOut) store_n(out + i, e, n);
      if constexpr (kFm) fm.add(i, e);
    };
    if constexpr (kVecs == 0) {
      for_vectors(table.dim, move);
    } else {
      DPI_UNROLL
      for (int v = 0; v < kVecs; ++v) move(v * Vec::W, Vec::W);
    }
    if constexpr (kFm) fm.finish();
  }
}

template <DType T, bool kOut, bool kFm>
void single_width(const LookupTile& t, const LookupField& f, const Ahead& ahead) {
  const int32_t dim = t.a.tables[f.table].dim;
  if (dim == Vec::W) return single_rows<T, kOut, kFm, 1>(t, f, ahead);
  if (dim == 2 * Vec::W) return single_rows<T, kOut, kFm, 2>(t, f, ahead);
  single_rows<T, kOut, kFm, 0>(t, f, ahead);
}

template <DType T>
void single_as(const LookupTile& t, const LookupField& f, const Ahead& ahead) {
  const bool out = f.out_col >= 0 && t.a.out.data != nullptr;
  if (!f.fm) {
    if (out) single_width<T, true, false>(t, f, ahead);
  } else {
    out ? single_width<T, true, true>(t, f, ahead) : single_width<T, false, true>(t, f, ahead);
  }
}

void single_field(const LookupTile& t, const LookupField& f, const Ahead& ahead) {
  with_dtype(t.a.tables[f.table].dtype, [&]<DType T>() { single_as<T>(t, f, ahead); });
}

void pooled_field(const LookupTile& t, const LookupField& f, const Ahead& ahead) {
  const TableView& table = t.a.tables[f.table];
  const bool out = f.out_col >= 0 && t.a.out.data != nullptr;
  for (int64_t r = 0; r < t.rows; ++r) {
    ahead.ask(r);
    float* e = out ? t.out(r, f.out_col) : t.spare();
    pool_bag(f.embed, bag_at(t.a.inputs[f.input].bags, t.first + r), table, e);
    if (!f.fm) continue;
    FmRow fm(t, r);
    for_vectors(table.dim, [&](int64_t i, int64_t n) { fm.add(i, load_n(e + i, n)); });
    fm.finish();
  }
}

void scalar_field(const LookupTile& t, const ScalarField& f, const Ahead& ahead) {
  TableView table = t.a.tables[f.table];
  table.dim = f.count;
  const Bags& bags = t.a.inputs[f.input].bags;
  const bool direct = f.embed.pooling == Pooling::kSingle && table.dtype == DType::kF32;
  // The `nonzero` rule is about the whole row, and a scale may lie behind it.
  const bool whole = f.embed.mask == MaskRule::kNonzero || kRowForms[static_cast<int>(table.dtype)].whole;
  for (int64_t r = 0; r < t.rows; ++r) {
    ahead.ask(r);
    const Bag bag = bag_at(bags, t.first + r);
    double* chan = t.chan(r) + f.first_channel;
    if (direct) {
      const char* row = table_row(table, bag.ids[0]);
      for (int32_t k = 0; k < f.count; ++k) {
        float v;  // rows need not be aligned
        std::memcpy(&v, row + k * 4, sizeof v);
        chan[k] += double{v};
      }
      continue;
    }
    pool_bag(f.embed, bag, whole ? t.a.tables[f.table] : table, t.spare());
    for (int32_t k = 0; k < f.count; ++k) chan[k] += double{t.spare()[k]};
  }
}

DPI_INLINE void numeric_vector(const LookupTile& t, const NumericField& f, int64_t r, const float* x) {
  const float* v = f.vec >= 0 ? t.a.numeric_vec.data + f.vec : x;
  const Vec factor = Vec::all(f.vec >= 0 ? x[0] : 1.0f);
  float* out = f.out_col >= 0 && t.a.out.data != nullptr ? t.out(r, f.out_col) : nullptr;
  FmRow fm(t, r);
  for_vectors(f.dim, [&](int64_t i, int64_t n) {
    const Vec e = load_n(v + i, n) * factor;
    if (out != nullptr) store_n(out + i, e, n);
    if (f.fm) fm.add(i, e);
  });
  if (f.fm) fm.finish();
}

void numeric_field(const LookupTile& t, const NumericField& f) {
  const Tensor& input = t.a.inputs[f.input].tensor;
  const int64_t channels = t.a.attrs.n_channels;
  for (int64_t r = 0; r < t.rows; ++r) {
    const float* x = row_of(input, t.first + r);
    numeric_vector(t, f, r, x);
    if (f.coef < 0) continue;
    const float* lin = t.a.numeric_coef.data + f.coef;
    double* chan = t.chan(r);
    for (int64_t c = 0; c < channels; ++c) chan[c] += double{x[0]} * double{lin[c]};
  }
}

void start_rows(const LookupTile& t) {
  const MultiLookupAttrs& attrs = t.a.attrs;
  for (int64_t r = 0; r < t.rows; ++r) {
    for (int32_t c = 0; c < attrs.n_channels; ++c) {
      t.chan(r)[c] = t.a.channel_bias.data == nullptr ? 0.0 : double{t.a.channel_bias.data[c]};
    }
    Vec::zero().store(t.pairs + r * Vec::W);
    for (int64_t i = 0; i < t.fm_stride; ++i) t.fm(r)[i] = 0;
  }
}

void finish_rows(const LookupTile& t) {
  const MultiLookupAttrs& attrs = t.a.attrs;
  if (t.a.chan.data == nullptr) return;
  for (int64_t r = 0; r < t.rows; ++r) {
    if (attrs.fm_channel >= 0) t.chan(r)[attrs.fm_channel] += double{Vec::load(t.pairs + r * Vec::W).sum()};
    float* chan = row_of(t.a.chan, t.first + r);
    for (int32_t c = 0; c < attrs.n_channels; ++c) chan[c] = static_cast<float>(t.chan(r)[c]);
  }
}

DPI_INLINE void prefetch_ids(const Walk& w, int64_t tile, int64_t unit) {
  const int64_t first = tile * w.tile;
  if (first >= w.a.rows) return;
  const Bags& bags = *unit_at(w.a, unit).bags;
  const int64_t at = bags.offsets == nullptr ? first * bags.stride : bags.offsets[first];
  prefetch_line(bags.ids + at);
  if (bags.offsets != nullptr) prefetch_line(bags.ids + at + kTile);
}

/// Asks for the rows of all ids of one field, with the scalars that ride behind them, or of one scalar.
DPI_INLINE void ask_for(const MultiLookupArgs& a, int32_t input, const TableView& table, int64_t bytes) {
  const Bags& bags = a.inputs[input].bags;
  const bool one_hot = bags.offsets == nullptr;
  const int64_t first = one_hot ? 0 : bags.offsets[0];
  const int64_t n = one_hot ? a.rows : min_of<int64_t>(bags.offsets[a.rows] - first, kPrefetchIds);
  for (int64_t i = 0; i < n; ++i) {
    prefetch_row(table, bags.ids[first + (one_hot ? i * bags.stride : i)], bytes);
  }
}

void ask_for_all(const Walk& w) {
  const MultiLookupAttrs& attrs = w.a.attrs;
  for (int32_t i = 0; i < attrs.n_fields; ++i) {
    const TableView& table = w.a.tables[attrs.fields[i].table];
    ask_for(w.a, attrs.fields[i].input, table, max_of(row_data_bytes(table), ridden_bytes(w.a, w.rides, i)));
  }
  for (int32_t i = 0; i < attrs.n_scalars; ++i) {
    if (ridden_bytes(w.a, w.rides, i) > 0) continue;  // asked for with its field
    const ScalarField& s = attrs.scalars[i];
    ask_for(w.a, s.input, w.a.tables[s.table], s.count * 4);
  }
}

void start_asking(const Walk& w) {
  for (int64_t u = 0; u < min_of(w.units, kUnitsAhead); ++u) {
    const Ahead ahead = ahead_at(w, 0, w.in_order(u));
    for (int64_t r = 0; r < w.tile; ++r) ahead.ask(r);
  }
}

/// The prefetches to issue while unit u of the tile at row `first` is read.
DPI_INLINE Ahead look_ahead(const Walk& w, int64_t first, int64_t u) {
  const int64_t tile = first / w.tile, ahead = u + kUnitsAhead, far = u + 2 * kUnitsAhead;
  prefetch_ids(w, tile + far / w.units, w.in_order(far % w.units));
  return ahead_at(w, tile + ahead / w.units, w.in_order(ahead % w.units));
}

void run_unit(const LookupTile& t, int64_t unit, const Ahead& ahead) {
  const MultiLookupAttrs& attrs = t.a.attrs;
  if (unit >= attrs.n_fields) {
    scalar_field(t, attrs.scalars[unit - attrs.n_fields], ahead);
    return;
  }
  const LookupField& f = attrs.fields[unit];
  f.embed.pooling == Pooling::kSingle ? single_field(t, f, ahead) : pooled_field(t, f, ahead);
}

}  // namespace

/// True if the sizes fit the tile's buffers; the backend takes the reference otherwise. spare: see
/// spare_floats.
bool multi_lookup_fits(const MultiLookupAttrs& attrs, int64_t spare) {
  return attrs.fm_dim <= kMaxFmDim && attrs.n_channels <= kMaxChannels && spare <= kMaxRowFloats;
}

/// The most rows that the tile's buffers hold.
DPI_INLINE int64_t rows_of_a_tile(int64_t channels, int64_t fm_stride) {
  const int64_t by_sums = fm_stride == 0 ? kTile : kSumFloats / fm_stride;
  const int64_t by_channels = channels == 0 ? kTile : kMaxChannels / channels;
  return min_of(kTile, min_of(by_sums, by_channels));
}

void multi_lookup(const MultiLookupArgs& a) {
  alignas(64) float sum[kSumFloats];
  alignas(64) float pairs[kTile * Vec::W];
  alignas(64) unsigned char room[kRoomBytes];
  double chan[kMaxChannels];
  const int64_t fm_stride = (a.attrs.fm_dim + Vec::W - 1) / Vec::W * Vec::W;
  const int64_t tile_rows = rows_of_a_tile(a.attrs.n_channels, fm_stride);
  const Walk w{a, tile_rows, int64_t{a.attrs.n_fields} + a.attrs.n_scalars, rides_along(a.attrs)};
  const bool alike = rows_are_alike(a), few = a.rows <= kFewRows && a.rows <= tile_rows;
  if (!alike) few ? ask_for_all(w) : start_asking(w);
  Ahead ahead = kNothingAhead;
  for (int64_t first = 0; first < a.rows; first += tile_rows) {
    const LookupTile t{a, first, min_of(tile_rows, a.rows - first), sum, pairs, chan, room, fm_stride};
    start_rows(t);
    if (alike) fields_by_rows(t);
    for (int64_t u = 0; !alike && u < w.units; ++u) {
      if (!few) ahead = look_ahead(w, first, u);
      run_unit(t, w.in_order(u), ahead);
    }
    for (int32_t i = 0; i < a.attrs.n_numerics; ++i) numeric_field(t, a.attrs.numerics[i]);
    finish_rows(t);
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
