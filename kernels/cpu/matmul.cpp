// Small products, one per row: MatMul, and Linear over the field axis, which is W x per row. Linear over the
// last axis, the usual one, goes to gemm (linear_packed). Wide sums go
// over the columns of b; with b transposed they are dot products along k.
#include <dpi/kernels/matmul.hpp>

#include <dpi/kernels/index.hpp>
#include <dpi/kernels/linear.hpp>

#include "kernels/cpu/simd/vec.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

/// dst[m, n] = alpha a b + bias, a read as a[i * a_row + k * a_col]; b: [k, n], or [n, k] when transposed.
struct Product {
  const float* a;
  const float* b;
  const float* bias;  // [m] or null
  float* dst;
  int64_t m, n, k;
  int64_t a_row, a_col;
  float alpha;
  bool b_transposed;
};

/// kRows rows of dst at once share the loads of b.
template <int kRows>
DPI_INLINE void column_rows(const Product& p, int64_t first) {
  const Vec alpha = Vec::all(p.alpha);
  for_vectors(p.n, [&](int64_t j, int64_t lanes) {
    Vec sum[kRows];
    DPI_UNROLL
    for (int i = 0; i < kRows; ++i) sum[i] = Vec::zero();
    for (int64_t k = 0; k < p.k; ++k) {
      const Vec b = load_n(p.b + k * p.n + j, lanes);
      DPI_UNROLL
      for (int i = 0; i < kRows; ++i)
        sum[i] = fma(Vec::all(p.a[(first + i) * p.a_row + k * p.a_col]), b, sum[i]);
    }
    DPI_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Vec bias = p.bias == nullptr ? Vec::zero() : Vec::all(p.bias[first + i]);
      store_n(p.dst + (first + i) * p.n + j, fma(alpha, sum[i], bias), lanes);
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
      p.dst[i * p.n + j] = p.alpha * sum + (p.bias == nullptr ? 0.0f : p.bias[i]);
    }
  }
}

void product(const Product& p) {
  if (p.b_transposed) {
    product_dots(p);
    return;
  }
  int64_t i = 0;
  for (; i + 4 <= p.m; i += 4) column_rows<4>(p, i);
  for (; i < p.m; ++i) column_rows<1>(p, i);
}

}  // namespace

void matmul(const MatMulArgs& args) {
  const Dims &da = args.a.dims, &db = args.b.dims, &dd = args.dst.dims;
  const bool ta = args.attrs.trans_a != 0;
  const int64_t a_rows = da.d[da.rank - 2], a_cols = da.d[da.rank - 1];
  const int64_t b_size = db.d[db.rank - 2] * db.d[db.rank - 1];
  Product p{};
  p.m = dd.d[dd.rank - 2];
  p.n = dd.d[dd.rank - 1];
  p.k = ta ? a_rows : a_cols;
  p.a_row = ta ? 1 : a_cols;
  p.a_col = ta ? a_cols : 1;
  p.alpha = args.attrs.alpha;
  p.b_transposed = args.attrs.trans_b != 0;
  if (p.m * p.n == 0) return;
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

/// Unpacked weights: dot products.
void linear_last(const LinearArgs& a) {
  const Slices s = slices_of(a);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    for (int64_t i = 0; i < s.outer * s.groups; ++i) {
      const int64_t g = i % s.groups;
      const float* x = row_of(a.x, r) + (i / s.groups * s.x_groups + (s.x_groups > 1 ? g : 0)) * s.in;
      float* dst = row_of(a.dst, r) + i * s.out;
      for (int64_t o = 0; o < s.out; ++o) {
        const int64_t j = g * s.out + o;
        dst[o] = dot(a.weight.data + j * s.in, x, s.in) + (a.bias.data == nullptr ? 0.0f : a.bias.data[j]);
      }
    }
  }
}

}  // namespace

void linear(const LinearArgs& a) { a.attrs.axis == LinearAxis::kField ? linear_field(a) : linear_last(a); }

/// axis last; packed: the groups' weights by gemm_pack, one behind the other.
void linear_packed(const LinearArgs& a, const float* packed) {
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
  const int64_t stride = gemm_packed_floats(s.out, s.in);
  for (int64_t r = 0; r < (flat ? min_of<int64_t>(a.dst.rows, 1) : a.dst.rows); ++r) {
    for (int64_t g = 0; g < s.groups; ++g) {
      c.x = row_of(a.x, r) + (s.x_groups > 1 ? g : 0) * s.in;
      c.dst = row_of(a.dst, r) + g * s.out;
      c.packed = packed + g * stride;
      c.bias = a.bias.data == nullptr ? nullptr : a.bias.data + g * s.out;
      gemm(c);
    }
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
