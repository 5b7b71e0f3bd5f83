// Cin: dst[o] = sum over i of x[i] * (sum over j of weight[o, (i, j)] y[j]), lanes along d. The inner sums of
// some fields i and some rows are a tile in registers; products of two fields are nowhere: m fused
// multiply-adds a map take the place of m n products.
#include <dpi/kernels/cin.hpp>

#include "kernels/cpu/simd/vec.hpp"
#include "kernels/cpu/spans.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

// Registers: kTileFields x kTileRows inner sums, kTileRows vectors of y, as many of dst, one weight.
#if defined(DPI_ISA_AVX512) || defined(DPI_ISA_NEON)
constexpr int kTileFields = 8, kTileRows = 3;
#else
constexpr int kTileFields = 4, kTileRows = 2;
#endif

/// One map of some rows: W is [m, n], or without y the side of it from the diagonal on.
struct MapCall {
  const float* weight;
  const float* x;  // at the vector's first lane, as y and dst
  const float* y;
  float* dst;
  float bias;
  int64_t m, n, dim;
  int64_t ldx, ldy, ldd;
  int64_t lanes;
  bool with_itself;
};

/// Where W's row i begins, counted so that column j lies at + j.
DPI_INLINE int64_t row_start(const MapCall& c, int64_t i) {
  return c.with_itself ? i * c.m - i * (i - 1) / 2 - i : i * c.n;
}

template <bool kWhole>
DPI_INLINE Vec load_lanes(const float* p, int64_t lanes) {
  return kWhole ? Vec::load(p) : load_n(p, lanes);
}

/// Column j of the first kCount rows of W: inner += w[i, j] y[j].
template <int kCount, int kFields, int kRows, bool kWhole>
DPI_INLINE void add_column(const MapCall& c, const float* const (&w)[kFields], int64_t j,
                           Vec (&inner)[kFields][kRows]) {
  Vec y[kRows];
  DPI_UNROLL
  for (int r = 0; r < kRows; ++r) y[r] = load_lanes<kWhole>(c.y + r * c.ldy + j * c.dim, c.lanes);
  DPI_UNROLL
  for (int i = 0; i < kCount; ++i) {
    const Vec weight = Vec::all(w[i][j]);
    DPI_UNROLL
    for (int r = 0; r < kRows; ++r) inner[i][r] = fma(weight, y[r], inner[i][r]);
  }
}

/// Columns of the tile's own fields: each has the rows down to the diagonal.
template <int kCount, int kFields, int kRows, bool kWhole>
DPI_INLINE void add_diagonal(const MapCall& c, const float* const (&w)[kFields], int64_t first,
                             Vec (&inner)[kFields][kRows]) {
  if constexpr (kCount > 1) add_diagonal<kCount - 1, kFields, kRows, kWhole>(c, w, first, inner);
  add_column<kCount, kFields, kRows, kWhole>(c, w, first + kCount - 1, inner);
}

/// sum += x[i] * (sum over j of w[i, j] y[j]) for kFields fields from `first` on. Each sum is over j in
/// order, then over i in order, whatever the tile.
template <int kFields, int kRows, bool kWhole>
DPI_INLINE void add_fields(const MapCall& c, int64_t first, Vec (&sum)[kRows]) {
  const float* w[kFields];
  Vec inner[kFields][kRows];
  DPI_UNROLL
  for (int i = 0; i < kFields; ++i) {
    w[i] = c.weight + row_start(c, first + i);
    DPI_UNROLL
    for (int r = 0; r < kRows; ++r) inner[i][r] = Vec::zero();
  }
  if (c.with_itself) add_diagonal<kFields, kFields, kRows, kWhole>(c, w, first, inner);
  for (int64_t j = c.with_itself ? first + kFields : 0; j < c.n; ++j)
    add_column<kFields, kFields, kRows, kWhole>(c, w, j, inner);
  DPI_UNROLL
  for (int i = 0; i < kFields; ++i) {
    DPI_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Vec x = load_lanes<kWhole>(c.x + r * c.ldx + (first + i) * c.dim, c.lanes);
      sum[r] = fma(x, inner[i][r], sum[r]);
    }
  }
}

/// The fields from `first` on, fewer than kFields + 1.
template <int kFields, int kRows, bool kWhole>
DPI_INLINE void add_last_fields(const MapCall& c, int64_t first, Vec (&sum)[kRows]) {
  if (c.m - first == kFields) return add_fields<kFields, kRows, kWhole>(c, first, sum);
  if constexpr (kFields > 1) add_last_fields<kFields - 1, kRows, kWhole>(c, first, sum);
}

template <int kRows, bool kWhole>
void map(const MapCall& c) {
  Vec sum[kRows];
  DPI_UNROLL
  for (int r = 0; r < kRows; ++r) sum[r] = Vec::all(c.bias);
  int64_t first = 0;
  for (; first + kTileFields <= c.m; first += kTileFields)
    add_fields<kTileFields, kRows, kWhole>(c, first, sum);
  add_last_fields<kTileFields - 1, kRows, kWhole>(c, first, sum);
  DPI_UNROLL
  for (int r = 0; r < kRows; ++r) store_n(c.dst + r * c.ldd, sum[r], c.lanes);
}

/// All maps of kRows rows from `row` on.
template <int kRows>
void maps(const CinArgs& a, MapCall c, int64_t row) {
  const Tensor& y = c.with_itself ? a.x : a.y;
  const int64_t out = a.dst.dims.d[a.dst.dims.rank - 2];
  const int64_t pairs = row_start(c, c.m) + (c.with_itself ? c.m : 0);
  for_vectors(c.dim, [&](int64_t d, int64_t lanes) {
    c.x = row_of(a.x, row) + d;
    c.y = row_of(y, row) + d;
    c.lanes = lanes;
    for (int64_t o = 0; o < out; ++o) {
      c.weight = a.weight.data + o * pairs;
      c.bias = a.bias.data == nullptr ? 0.0f : a.bias.data[o];
      c.dst = row_of(a.dst, row) + o * c.dim + d;
      lanes < Vec::W ? map<kRows, false>(c) : map<kRows, true>(c);
    }
  });
}

}  // namespace

void cin(const CinArgs& a) {
  MapCall c{};
  c.dim = a.dst.dims.d[a.dst.dims.rank - 1];
  if (c.dim == 0) return;
  c.with_itself = a.y.data == nullptr;
  c.m = dims_size(a.x.dims) / c.dim;
  c.n = c.with_itself ? c.m : dims_size(a.y.dims) / c.dim;
  c.ldx = a.x.row_stride;
  c.ldy = c.with_itself ? a.x.row_stride : a.y.row_stride;
  c.ldd = a.dst.row_stride;
  int64_t r = 0;
  for (; r + kTileRows <= a.dst.rows; r += kTileRows) maps<kTileRows>(a, c, r);
  for (; r < a.dst.rows; ++r) maps<1>(a, c, r);
  if (a.attrs.act.kind == UnaryKind::kIdentity) return;
  for (r = 0; r < a.dst.rows; ++r) {
    float* const dst = row_of(a.dst, r);
    unary_span({a.attrs.act, {}}, {dst, 1}, dst, dims_size(a.dst.dims));
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
