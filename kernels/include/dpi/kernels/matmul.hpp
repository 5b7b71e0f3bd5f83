// MatMul: per-row matrix product alpha op(a) op(b); leading dims broadcast (FORMAT.md part 7, MatMul).
#pragma once

#include <dpi/kernels/tensor.hpp>

namespace dpi::kernels {

/// Entries (i, j) of a square product that are computed, row by row: all, those with i < j, those with i > j.
enum class MatMulPart : int32_t { kAll = 0, kUpper = 1, kLower = 2 };

struct MatMulAttrs {
  int32_t trans_a = 0;
  int32_t trans_b = 0;
  float alpha = 1;
  MatMulPart part = MatMulPart::kAll;  // not in the format: the plan makes it of a product and a selection
};

/// Where the entries of row i of a part begin, in a product of m rows and columns.
constexpr int64_t part_row(MatMulPart part, int64_t m, int64_t i) {
  return part == MatMulPart::kUpper ? i * (2 * m - i - 1) / 2 : i * (i - 1) / 2;
}

/// Row and column of entry e of a part.
constexpr void part_entry(MatMulPart part, int64_t m, int64_t e, int64_t* i, int64_t* j) {
  *i = part == MatMulPart::kUpper ? 0 : 1;
  for (;; ++*i) {
    const int64_t n = part == MatMulPart::kUpper ? m - 1 - *i : *i;
    if (e < n) break;
    e -= n;
  }
  *j = part == MatMulPart::kUpper ? *i + 1 + e : e;
}

/// a: [rows, .., m, k], b: [rows, .., k, n] (before the transposes), dst: [rows, .., m, n]; a part: a [rows,
/// m, k], b [rows, k, m], dst [rows, m (m - 1) / 2]. A constant operand has row_stride 0.
struct MatMulArgs {
  MatMulAttrs attrs;
  Tensor a;
  Tensor b;
  Tensor dst;
};

namespace ref {
void matmul(const MatMulArgs& a);
}
namespace cpu {
void matmul(const MatMulArgs& a);
}

}  // namespace dpi::kernels
