// Small products, one per row: MatMul, and Linear over the field axis, which is W x per row. Linear over the
// last axis, the usual one, goes to gemm (linear_packed). Sums go over the columns of b; a b that is
// transposed is turned in tiles first, or, where that is not worth it, taken in dot products along k.
#include <dpi/kernels/matmul.hpp>

#include <dpi/kernels/index.hpp>
#include <dpi/kernels/linear.hpp>

#include "kernels/cpu/simd/vec.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kTileFloats = 2048;  // of b, turned, on the stack
constexpr int64_t kFewRows = 4;        // of a: with fewer, turning b costs more than it gives

/// dst[m, n] = alpha a b + bias, a read as a[i * a_row + k * a_col]; b: [k, n], or [n, k] when transposed.
/// ldb, ldd: steps between the rows of b (not transposed) and of dst.
struct Product {
  const float* a;
  const float* b;
  const float* bias;  // [m] or null
  float* dst;
  int64_t m, n, k;
  int64_t a_row, a_col, ldb, ldd;
  float alpha;
  bool b_transposed;
};

/// Columns [j, j + lanes) of rows [first, first + kRows) of a b.
template <int kRows>
DPI_INLINE void sum_columns(const Product& p, int64_t first, int64_t j, int64_t lanes, Vec (&sum)[kRows]) {
  DPI_UNROLL
  for (int i = 0; i < kRows; ++i) sum[i] = Vec::zero();
  for (int64_t k = 0; k < p.k; ++k) {
    const Vec b = load_n(p.b + k * p.ldb + j, lanes);
    DPI_UNROLL
    for (int i = 0; i < kRows; ++i)
      sum[i] = fma(Vec::all(p.a[(first + i) * p.a_row + k * p.a_col]), b, sum[i]);
  }
}

/// kRows rows of dst at once share the loads of b.
template <int kRows>
DPI_INLINE void column_rows(const Product& p, int64_t first) {
  const Vec alpha = Vec::all(p.alpha);
  for_vectors(p.n, [&](int64_t j, int64_t lanes) {
    Vec sum[kRows];
    sum_columns<kRows>(p, first, j, lanes, sum);
    DPI_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Vec bias = p.bias == nullptr ? Vec::zero() : Vec::all(p.bias[first + i]);
      store_n(p.dst + (first + i) * p.ldd + j, fma(alpha, sum[i], bias), lanes);
    }
  });
}

void product_dots(const Product& p) {
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      const float* b = p.b + j * p.k;
      float sum = 0;
      if (p.a_col == 1) {
        sum = dot(p.a + i * p.a_row, b, p.k);
      } else {
        for (int64_t k = 0; k < p.k; ++k) sum += p.a[i * p.a_row + k * p.a_col] * b[k];
      }
      p.dst[i * p.ldd + j] = p.alpha * sum + (p.bias == nullptr ? 0.0f : p.bias[i]);
    }
  }
}

void product_columns(const Product& p) {
  int64_t i = 0;
  for (; i + 4 <= p.m; i += 4) column_rows<4>(p, i);
  for (; i < p.m; ++i) column_rows<1>(p, i);
}

/// Columns of a tile: whole vectors; 0 where not even one fits.
int64_t tile_columns(int64_t k) { return kTileFloats / max_of<int64_t>(k, 1) / Vec::W * Vec::W; }

/// b comes as [n, k]: some of its rows at a time become the columns of a tile. body(part, first): the product
/// with columns [first, first + part.n) of b; its dst is p's.
template <class Body>
DPI_INLINE void for_tiles(const Product& p, Body&& body) {
  alignas(64) float tile[kTileFloats];
  const int64_t columns = tile_columns(p.k);
  for (int64_t first = 0; first < p.n; first += columns) {
    Product part = p;
    part.n = min_of(columns, p.n - first);
    part.b = tile;
    part.ldb = (part.n + Vec::W - 1) / Vec::W * Vec::W;
    const float* from = p.b + first * p.k;
    for (int64_t j = 0; j < part.n; ++j) {
      for (int64_t k = 0; k < p.k; ++k) tile[k * part.ldb + j] = *from++;
    }
    body(part, first);
  }
}

void product_turned(const Product& p) {
  for_tiles(p, [](Product part, int64_t first) {
    part.dst += first;
    product_columns(part);
  });
}

void product(const Product& p) {
  if (!p.b_transposed) return product_columns(p);
  if (p.m < kFewRows || tile_columns(p.k) == 0) return product_dots(p);
  product_turned(p);
}

// ---- one side of the diagonal

/// Columns [begin, end) of b, which it holds from column `origin` on.
struct Columns {
  int64_t begin, end, origin;
};

/// Entries of rows [first, first + kRows) above the diagonal. A vector begins where the first of these rows
/// does; what a later row has of it below the diagonal lies on the end of the rows above, which are written
/// after it.
template <int kRows>
DPI_INLINE void upper_rows(const Product& p, int64_t first, const Columns& c) {
  const int64_t begin = max_of(first + 1, c.begin);
  for_vectors(c.end - begin, [&](int64_t at, int64_t lanes) {
    const int64_t j = begin + at;
    Vec sum[kRows];
    sum_columns<kRows>(p, first, j - c.origin, lanes, sum);
    DPI_UNROLL
    for (int i = kRows - 1; i >= 0; --i) {
      const int64_t row = first + i;
      float* const dst = p.dst + row * (2 * p.m - row - 1) / 2 + (j - row - 1);
      store_n(dst, Vec::all(p.alpha) * sum[i], lanes);
    }
  });
}

template <int kRows>
DPI_INLINE void lower_rows(const Product& p, int64_t first, const Columns& c) {
  const int64_t end = min_of(c.end, first + kRows - 1);
  for_vectors(end - c.begin, [&](int64_t at, int64_t lanes) {
    const int64_t j = c.begin + at;
    Vec sum[kRows];
    sum_columns<kRows>(p, first, j - c.origin, lanes, sum);
    DPI_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const int64_t row = first + i;
      if (row > j)
        store_n(p.dst + row * (row - 1) / 2 + j, Vec::all(p.alpha) * sum[i], min_of(lanes, row - j));
    }
  });
}

void part_columns(const Product& p, MatMulPart part, const Columns& c) {
  if (part == MatMulPart::kUpper) {
    const int64_t rows = min_of(p.m, c.end) - 1;  // of the rows above the last column
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) upper_rows<4>(p, i, c);
    for (; i < rows; ++i) upper_rows<1>(p, i, c);
    return;
  }
  int64_t i = c.begin + 1;
  for (; i + 4 <= p.m; i += 4) lower_rows<4>(p, i, c);
  for (; i < p.m; ++i) lower_rows<1>(p, i, c);
}

void part_dots(const Product& p, MatMulPart part) {
  float* dst = p.dst;
  for (int64_t i = 0; i < p.m; ++i) {
    const bool upper = part == MatMulPart::kUpper;
    for (int64_t j = upper ? i + 1 : 0; j < (upper ? p.m : i); ++j) {
      Product one = p;
      one.m = one.n = 1;
      one.a += i * p.a_row;
      one.b += j * p.k;
      one.dst = dst++;
      product_dots(one);
    }
  }
}

void product_part(const Product& p, MatMulPart part) {
  if (!p.b_transposed) return part_columns(p, part, {0, p.m, 0});
  if (tile_columns(p.k) == 0) return part_dots(p, part);
  for_tiles(p, [part](const Product& tile, int64_t first) {
    part_columns(tile, part, {first, first + tile.n, first});
  });
}

}  // namespace

void matmul(const MatMulArgs& args) {
  const Dims &da = args.a.dims, &db = args.b.dims, &dd = args.dst.dims;
  const bool ta = args.attrs.trans_a != 0;
  const int64_t a_rows = da.d[da.rank - 2], a_cols = da.d[da.rank - 1];
  const int64_t b_size = db.d[db.rank - 2] * db.d[db.rank - 1];
  Product p{};
  const bool part = args.attrs.part != MatMulPart::kAll;
  p.m = ta ? a_cols : a_rows;
  p.n = part ? p.m : dd.d[dd.rank - 1];
  p.k = ta ? a_rows : a_cols;
  p.a_row = ta ? 1 : a_cols;
  p.a_col = ta ? a_cols : 1;
  p.alpha = args.attrs.alpha;
  p.b_transposed = args.attrs.trans_b != 0;
  p.ldb = p.ldd = p.n;
  if (p.m * p.n == 0) return;
  for (int64_t r = 0; r < (part ? args.dst.rows : 0); ++r) {
    p.a = row_of(args.a, r);
    p.b = row_of(args.b, r);
    p.dst = row_of(args.dst, r);
    product_part(p, args.attrs.part);
  }
  if (part) return;
  const int64_t matrices = dims_size(dd) / (p.m * p.n);
  for (int64_t r = 0; r < args.dst.rows; ++r) {
    for (int64_t i = 0; i < matrices; ++i) {
      p.a = row_of(args.a, r) + broadcast_offset(dd, i, da, 2) * a_rows * a_cols;
      p.b = row_of(args.b, r) + broadcast_offset(dd, i, db, 2) * b_size;
      p.dst = row_of(args.dst, r) + i * p.m * p.n;
      product(p);
    }
  }
}

namespace {

/// dst[i, o, d] = sum_n weight[o, n] x[i, n, d] + bias[o]
void linear_field(const LinearArgs& a) {
  const Dims &dx = a.x.dims, &dd = a.dst.dims;
  Product p{};
  p.m = dd.d[dd.rank - 2];
  p.n = dd.d[dd.rank - 1];
  p.k = dx.d[dx.rank - 2];
  p.a = a.weight.data;
  p.a_row = p.k;
  p.a_col = 1;
  p.ldb = p.ldd = p.n;
  p.alpha = 1.0f;
  p.bias = a.bias.data;
  if (p.m * p.n == 0) return;
  const int64_t outer = dims_size(dd) / (p.m * p.n);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t i = 0; i < outer; ++i) {
      p.b = row_of(a.x, r) + i * p.k * p.n;
      p.dst = row_of(a.dst, r) + i * p.m * p.n;
      product(p);
    }
  }
}

/// x seen as slices [outer, x_groups, in], dst as [outer, groups, out].
struct Slices {
  int64_t in, out, groups, x_groups, outer;
};

Slices slices_of(const LinearArgs& a) {
  Slices s{};
  s.in = a.x.dims.d[a.x.dims.rank - 1];
  s.out = a.dst.dims.d[a.dst.dims.rank - 1];
  s.groups = a.attrs.groups;
  s.x_groups = s.groups > 1 ? a.x.dims.d[a.x.dims.rank - 2] : 1;
  s.outer = s.out == 0 ? 0 : dims_size(a.dst.dims) / (s.groups * s.out);
  return s;
}

/// The shared row that row r adds in its positions.
const float* shared_row(const LinearArgs& a, int64_t r) {
  return row_of(a.shared, a.row_map == nullptr ? r : a.row_map[r]);
}

/// Unpacked weights: dot products.
void linear_last(const LinearArgs& a) {
  const Slices s = slices_of(a);
  const int64_t n_once = a.once.data == nullptr ? 0 : dims_size(a.once.dims);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t i = 0; i < s.outer * s.groups; ++i) {
      const int64_t g = i % s.groups;
      const float* x = row_of(a.x, r) + (i / s.groups * s.x_groups + (s.x_groups > 1 ? g : 0)) * s.in;
      float* dst = row_of(a.dst, r) + i * s.out;
      for (int64_t o = 0; o < s.out; ++o) {
        const int64_t j = g * s.out + o;
        const float* w = a.weight.data + j * (s.in + n_once);
        dst[o] = dot(w, x, s.in) + (a.bias.data == nullptr ? 0.0f : a.bias.data[j]);
        if (n_once > 0) dst[o] += dot(w + s.in, row_of(a.once, r), n_once);
        if (a.shared.data != nullptr) dst[o] += shared_row(a, r)[i * s.out + o];
      }
    }
  }
}

}  // namespace

void linear(const LinearArgs& a) { a.attrs.axis == LinearAxis::kField ? linear_field(a) : linear_last(a); }

/// axis last; w: the groups' weights, one behind the other.
void linear_packed(const LinearArgs& a, const GemmWeights& w) {
  const Slices s = slices_of(a);
  const int64_t x_size = s.outer * s.x_groups * s.in, dst_size = s.outer * s.groups * s.out;
  // All rows and slices in one product where both sides are evenly spaced, else the slices of a row at a
  // time.
  const bool flat = s.outer == 1 || (a.x.row_stride == x_size && a.dst.row_stride == dst_size);
  GemmCall c;
  c.n = s.out;
  c.k = s.in;
  c.m = flat ? a.dst.rows * s.outer : s.outer;
  c.ldx = s.outer == 1 ? a.x.row_stride : s.x_groups * s.in;
  c.ldd = s.outer == 1 ? a.dst.row_stride : s.groups * s.out;
  c.scratch = w.scratch;
  c.part = w.part;
  c.parts = w.parts;
  for (int64_t r = 0; r < (flat ? min_of<int64_t>(a.dst.rows, 1) : a.dst.rows); ++r) {
    for (int64_t g = 0; g < s.groups; ++g) {
      c.x = row_of(a.x, r) + (s.x_groups > 1 ? g : 0) * s.in;
      c.dst = row_of(a.dst, r) + g * s.out;
      c.packed = static_cast<const char*>(w.packed) + g * w.group_bytes;
      c.bias = a.bias.data == nullptr ? nullptr : a.bias.data + g * s.out;
      w.gemm(c);
    }
  }
}

namespace {

/// Multiplies rows [first, first + rows) of `once`, the layer's bias included.
void multiply_once(const LinearArgs& a, const Slices& s, const float* packed, int64_t first, int64_t rows) {
  GemmCall c;
  c.x = row_of(a.once, first);
  c.packed = packed + gemm_packed_floats(s.out, s.in);
  c.bias = a.bias.data;
  c.dst = static_cast<float*>(a.scratch);
  c.m = rows;
  c.n = c.ldd = s.out;
  c.k = dims_size(a.once.dims);
  c.ldx = a.once.row_stride;
  gemm(c);
}

}  // namespace

/// packed: the weight's columns of x and, behind them, those of `once`, each by gemm_pack. What `once` gives
/// is the bias of a row's positions; scratch holds it for kOnceRows rows.
void linear_once(const LinearArgs& a, const float* packed) {
  const Slices s = slices_of(a);
  const bool has_once = a.once.data != nullptr;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const int64_t turn = r % kOnceRows;
    if (has_once && turn == 0) multiply_once(a, s, packed, r, min_of(kOnceRows, a.dst.rows - r));
    GemmCall c;
    c.x = row_of(a.x, r);
    c.packed = packed;
    c.bias = has_once ? static_cast<const float*>(a.scratch) + turn * s.out : a.bias.data;
    if (a.shared.data != nullptr) c.shared = shared_row(a, r);
    c.dst = row_of(a.dst, r);
    c.m = s.outer;
    c.n = c.ldd = c.ld_shared = s.out;
    c.k = c.ldx = s.in;
    gemm(c);
  }
}

namespace {

/// Slices that count, from wherever they lie, side by side.
struct Gathered {
  float* x;  // [kPlaceRows, in]
  float* y;  // [kPlaceRows, out]
  float* to[kPlaceRows];
  int64_t n;
};

void multiply(const LinearArgs& a, const GemmWeights& w, const Slices& s, Gathered& g) {
  GemmCall c;
  c.x = g.x;
  c.packed = w.packed;
  c.bias = a.bias.data;
  c.scratch = g.y + kPlaceRows * s.out;
  c.dst = g.y;
  c.m = g.n;
  c.n = c.ldd = s.out;
  c.k = c.ldx = s.in;
  if (g.n > 0) w.gemm(c);
  for (int64_t i = 0; i < g.n; ++i) copy_floats(g.to[i], g.y + i * s.out, s.out);
  g.n = 0;
}

}  // namespace

/// With `positions`, groups == 1: slices that count are multiplied, the others are 0. What the product needs
/// of scratch lies behind the gathered slices, at a whole line, as kPlaceRows is a multiple of 16.
void linear_positions(const LinearArgs& a, const GemmWeights& w) {
  const Slices s = slices_of(a);
  Gathered g;
  g.x = static_cast<float*>(a.scratch);
  g.y = g.x + kPlaceRows * s.in;
  g.n = 0;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    const float* const counts = row_of(a.positions, r);
    for (int64_t i = 0; i < s.outer; ++i) {
      float* const dst = row_of(a.dst, r) + i * s.out;
      if (counts[i] == 0) {
        for_vectors(s.out, [&](int64_t o, int64_t k) { store_n(dst + o, Vec::zero(), k); });
        continue;
      }
      copy_floats(g.x + g.n * s.in, row_of(a.x, r) + i * s.in, s.in);
      g.to[g.n++] = dst;
      if (g.n == kPlaceRows) multiply(a, w, s, g);
    }
  }
  multiply(a, w, s, g);
}

}  // namespace dpi::kernels::cpu::DPI_ISA
