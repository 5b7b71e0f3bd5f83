// MultiLookup where every field reads one row of the same type and width: row by row instead of field by
// field. What a field needs is kept in 72 bytes, FM's sums in registers, and rows are asked for kLinesAhead
// cache lines before they are read.
#include <dpi/kernels/multi_lookup.hpp>

#include "kernels/cpu/lookup_tile.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kGroup = 40;        // fields that are taken together: the tile has room for no more than 42
constexpr int64_t kLinesAhead = 104;  // of rows' own bytes, that are asked for before they are read
constexpr int64_t kMostVecs = 4;

/// One field: where its rows, its ids and the scalar behind each row are.
struct Source {
  const char* base;
  const int32_t* ids;
  const TableView* table;
  const char* scalar;  // null = none
  int64_t id_stride;
  int64_t row_bytes;
  int64_t scalar_stride;
  int32_t out_col;
  int32_t asked;  // bytes from a row's start that are asked for, the scalar with them if it is in the padding
  bool scalar_apart;
};

bool is_alike(const MultiLookupArgs& a, const LookupField& f) {
  const LookupField& first = a.attrs.fields[0];
  const TableView &t = a.tables[f.table], &like = a.tables[first.table];
  return f.embed.pooling == Pooling::kSingle && f.out_col >= 0 && f.fm == first.fm && t.dim == like.dim &&
         t.dtype == like.dtype && a.inputs[f.input].bags.offsets == nullptr;
}

bool is_simple(const MultiLookupArgs& a, const ScalarField& s) {
  return s.embed.pooling == Pooling::kSingle && a.tables[s.table].dtype == DType::kF32 && s.count == 1;
}

/// Vectors that hold `dim` floats, of those that fields_of is compiled for; 0 = none of them.
DPI_INLINE int64_t vectors_of(int64_t dim) {
  const int64_t vecs = (dim + Vec::W - 1) / Vec::W;
  return vecs == 1 || vecs == 2 || vecs == kMostVecs ? vecs : 0;
}

Source source_at(const MultiLookupArgs& a, int64_t i) {
  const LookupField& f = a.attrs.fields[i];
  const TableView& table = a.tables[f.table];
  const Bags& bags = a.inputs[f.input].bags;
  const int64_t ridden = ridden_bytes(a, true, i);
  Source s{};
  s.base = static_cast<const char*>(table.base);
  s.ids = bags.ids;
  s.table = &table;
  s.id_stride = bags.stride;
  s.row_bytes = table.row_bytes;
  s.out_col = f.out_col;
  s.asked = static_cast<int32_t>(max_of(row_data_bytes(table), ridden));
  if (i >= a.attrs.n_scalars) return s;
  const TableView& scalars = a.tables[a.attrs.scalars[i].table];
  s.scalar = static_cast<const char*>(scalars.base);
  s.scalar_stride = scalars.row_bytes;
  s.scalar_apart = ridden == 0;
  return s;
}

template <DType T>
DPI_INLINE void ask(const Source& s, int64_t row) {
  const int64_t id = s.ids[row * s.id_stride];
  prefetch_bytes(s.base + id * s.row_bytes, s.asked);
  if (s.scalar_apart) prefetch_line(s.scalar + id * s.scalar_stride);
  if constexpr (T == DType::kI8) prefetch_line(s.table->scale + id * s.table->scale_stride);
}

/// last: floats of a row's last vector.
template <DType T, int kVecs, bool kFm>
void fields_of(const LookupTile& t, const Source* sources, int64_t n, int64_t last) {
  const int64_t lines = (sources[0].asked + 63) / 64, ahead = max_of<int64_t>(kLinesAhead / (lines * n), 1);
  const bool asked_before = t.first > 0 && n == t.a.attrs.n_fields;
  for (int64_t r = 0; r < min_of(asked_before ? 0 : ahead, t.a.rows - t.first); ++r) {
    for (int64_t f = 0; f < n; ++f) ask<T>(sources[f], t.first + r);
  }
  for (int64_t r = 0; r < t.rows; ++r) {
    const int64_t row = t.first + r;
    const bool more = row + ahead < t.a.rows;
    float* const out = row_of(t.a.out, row);
    Vec sum[kVecs], pairs = Vec::zero();
    if constexpr (kFm) {
      pairs = Vec::load(t.pairs + r * Vec::W);
      DPI_UNROLL
      for (int v = 0; v < kVecs; ++v) sum[v] = Vec::load(t.fm(r) + v * Vec::W);
    }
    for (int64_t f = 0; f < n; ++f) {
      const Source& s = sources[f];
      if (more) ask<T>(s, row + ahead);
      const int64_t id = s.ids[row * s.id_stride];
      const char* at = s.base + id * s.row_bytes;
      const RowScale scale = row_scale<T>(*s.table, id);
      DPI_UNROLL
      for (int v = 0; v < kVecs; ++v) {
        const int64_t floats = v + 1 < kVecs ? Vec::W : last;
        const Vec e = load_row<T>(at, scale, v * Vec::W, floats);
        store_n(out + s.out_col + v * Vec::W, e, floats);
        if constexpr (!kFm) continue;
        pairs = fma(e, sum[v], pairs);
        sum[v] = sum[v] + e;
      }
    }
    if constexpr (!kFm) continue;
    pairs.store(t.pairs + r * Vec::W);
    DPI_UNROLL
    for (int v = 0; v < kVecs; ++v) sum[v].store(t.fm(r) + v * Vec::W);
  }
}

void scalars_of(const LookupTile& t, const ScalarField* scalars, const Source* sources, int64_t n) {
  for (int64_t r = 0; r < t.rows; ++r) {
    double* const chan = t.chan(r);
    int32_t channel = scalars[0].first_channel;
    double sum = chan[channel];  // of one channel after another: most often there is one
    for (int64_t f = 0; f < n; ++f) {
      if (scalars[f].first_channel != channel) {
        chan[channel] = sum;
        channel = scalars[f].first_channel;
        sum = chan[channel];
      }
      const Source& s = sources[f];
      float v;  // rows need not be aligned
      __builtin_memcpy(&v, s.scalar + s.ids[(t.first + r) * s.id_stride] * s.scalar_stride, sizeof v);
      sum += double{v};
    }
    chan[channel] = sum;
  }
}

template <DType T, int kVecs>
void fields_as(const LookupTile& t, const Source* sources, int64_t n, int64_t last) {
  t.a.attrs.fields[0].fm ? fields_of<T, kVecs, true>(t, sources, n, last)
                         : fields_of<T, kVecs, false>(t, sources, n, last);
}

template <DType T>
void fields_in(const LookupTile& t, const Source* sources, int64_t n) {
  const int64_t dim = t.a.tables[t.a.attrs.fields[0].table].dim, vecs = vectors_of(dim);
  const int64_t last = dim - (vecs - 1) * Vec::W;
  if (vecs == 1) return fields_as<T, 1>(t, sources, n, last);
  vecs == 2 ? fields_as<T, 2>(t, sources, n, last) : fields_as<T, kMostVecs>(t, sources, n, last);
}

}  // namespace

bool rows_are_alike(const MultiLookupArgs& a) {
  const MultiLookupAttrs& attrs = a.attrs;
  if (attrs.n_fields == 0 || a.out.data == nullptr || !rides_along(attrs)) return false;
  const int32_t dim = a.tables[attrs.fields[0].table].dim;
  if (vectors_of(dim) == 0 || (attrs.fields[0].fm && attrs.fm_dim != dim)) return false;
  for (int32_t i = 0; i < attrs.n_fields; ++i) {
    if (!is_alike(a, attrs.fields[i])) return false;
  }
  for (int32_t i = 0; i < attrs.n_scalars; ++i) {
    if (!is_simple(a, attrs.scalars[i])) return false;
  }
  return true;
}

void fields_by_rows(const LookupTile& t) {
  const MultiLookupAttrs& attrs = t.a.attrs;
  static_assert(kGroup * static_cast<int64_t>(sizeof(Source)) <= kRoomBytes);
  auto* sources = reinterpret_cast<Source*>(t.room);
  for (int64_t at = 0; at < attrs.n_fields; at += kGroup) {
    const int64_t n = min_of<int64_t>(kGroup, attrs.n_fields - at);
    for (int64_t f = 0; f < n; ++f) sources[f] = source_at(t.a, at + f);
    with_dtype(t.a.tables[attrs.fields[0].table].dtype, [&]<DType T>() { fields_in<T>(t, sources, n); });
    const int64_t scalars = min_of<int64_t>(n, attrs.n_scalars - at);
    if (scalars > 0) scalars_of(t, attrs.scalars + at, sources, scalars);
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
