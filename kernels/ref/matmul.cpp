#include <dpi/kernels/matmul.hpp>

#include <dpi/kernels/index.hpp>

namespace dpi::kernels::ref {
namespace {

// The dims in front of the matrix.
Dims leading(const Dims& d) {
  Dims lead = d;
  lead.rank = d.rank - 2;
  return lead;
}

// Row-major matrix [rows, cols]; at(i, j) reads its transpose when asked to.
struct Matrix {
  const float* data;
  int64_t cols;
  bool transposed;
  double at(int64_t i, int64_t j) const { return transposed ? data[j * cols + i] : data[i * cols + j]; }
};

void multiply(const MatMulArgs& args, const Matrix& a, const Matrix& b, int64_t depth, float* dst) {
  const int64_t m = args.dst.dims.at(-2);
  const int64_t n = args.dst.dims.at(-1);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += a.at(i, k) * b.at(k, j);
      dst[i * n + j] = static_cast<float>(args.attrs.alpha * sum);
    }
  }
}

void multiply_part(const MatMulArgs& args) {
  const Dims &da = args.a.dims, &db = args.b.dims;
  const bool ta = args.attrs.trans_a != 0, tb = args.attrs.trans_b != 0;
  const int64_t m = ta ? da.at(-1) : da.at(-2), depth = ta ? da.at(-2) : da.at(-1);
  for (int64_t r = 0; r < args.dst.rows; ++r) {
    const Matrix a{args.a.row(r), da.at(-1), ta}, b{args.b.row(r), db.at(-1), tb};
    for (int64_t e = 0; e < args.dst.dims.size(); ++e) {
      int64_t i = 0, j = 0;
      part_entry(args.attrs.part, m, e, &i, &j);
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += a.at(i, k) * b.at(k, j);
      args.dst.row(r)[e] = static_cast<float>(args.attrs.alpha * sum);
    }
  }
}

}  // namespace

void matmul(const MatMulArgs& args) {
  if (args.attrs.part != MatMulPart::kAll) return multiply_part(args);
  const Dims &da = args.a.dims, &db = args.b.dims, lead = leading(args.dst.dims);
  const int64_t depth = args.attrs.trans_a != 0 ? da.at(-2) : da.at(-1);
  const int64_t size_a = da.at(-2) * da.at(-1);
  const int64_t size_b = db.at(-2) * db.at(-1);
  const int64_t size_dst = args.dst.dims.at(-2) * args.dst.dims.at(-1);
  for (int64_t r = 0; r < args.dst.rows; ++r) {
    for (int64_t i = 0; i < lead.size(); ++i) {
      const float* a = args.a.row(r) + broadcast_offset(lead, i, leading(da)) * size_a;
      const float* b = args.b.row(r) + broadcast_offset(lead, i, leading(db)) * size_b;
      multiply(args, {a, da.at(-1), args.attrs.trans_a != 0}, {b, db.at(-1), args.attrs.trans_b != 0}, depth,
               args.dst.row(r) + i * size_dst);
    }
  }
}

}  // namespace dpi::kernels::ref
