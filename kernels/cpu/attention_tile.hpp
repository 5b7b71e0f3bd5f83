// Parts of both forms of attention: products of a tile of queries, and keys turned into columns.
// Included by attention.cpp and attention_stream.cpp only.
#pragma once

#include <dpi/kernels/attention.hpp>

#include "kernels/cpu/simd/math.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

/// The format's op (attrs.streamed), and its scratch.
int64_t attention_stream_floats(const AttentionAttrs& a);
void attention_stream(const AttentionArgs& a);

// Queries at once, and vectors of columns. AVX-512 and NEON have 32 registers.
constexpr int kTile = Vec::W == 16 || Vec::W == 4 ? 8 : Vec::W == 8 ? 4 : 2;
constexpr int kVecs = 3;

DPI_INLINE int64_t whole_vectors(int64_t n) { return (n + Vec::W - 1) / Vec::W * Vec::W; }

DPI_INLINE const float* position_of(const float* row, const HeadLayout& l, int64_t h, int64_t i) {
  return row + l.first + h * l.head + i * l.position;
}

/// A part of a vector's lanes: 1 in the first n of load_n(kOnes, n).
alignas(64) constexpr float kOnes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/// Rows of the second matrix: data + row[i] step, or data + i step where row is null.
struct Rows {
  const float* data;
  const int32_t* row;
  int64_t step, n;
};

/// Where a product goes: dst[r] = factor[r] a[r] b, or dst[r] = factor[r] dst[r] + a[r] b.
enum class Into { kPlace, kSum };

/// Columns from `column` on; row r of a and dst as their lists say. lanes: of the last vector.
template <Into kInto, int kRows, int kCols>
DPI_INLINE void product(const float* const* a, const Rows& b, int64_t column, int64_t lanes,
                        const float* factor, float* const* dst) {
  Vec sum[kRows][kCols];
  DPI_UNROLL
  for (int r = 0; r < kRows; ++r) {
    DPI_UNROLL
    for (int c = 0; c < kCols; ++c) sum[r][c] = Vec::zero();
  }
  for (int64_t i = 0; i < b.n; ++i) {
    const float* const from = b.data + (b.row == nullptr ? i : b.row[i]) * b.step + column;
    Vec x[kCols];
    DPI_UNROLL
    for (int c = 0; c < kCols; ++c) x[c] = load_n(from + c * Vec::W, c + 1 < kCols ? Vec::W : lanes);
    DPI_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const Vec y = Vec::all(a[r][i]);
      DPI_UNROLL
      for (int c = 0; c < kCols; ++c) sum[r][c] = fma(y, x[c], sum[r][c]);
    }
  }
  DPI_UNROLL
  for (int r = 0; r < kRows; ++r) {
    DPI_UNROLL
    for (int c = 0; c < kCols; ++c) {
      float* const to = dst[r] + column + c * Vec::W;
      const int64_t n = c + 1 < kCols ? Vec::W : lanes;
      const Vec by = Vec::all(factor[r]);
      store_n(to, kInto == Into::kPlace ? sum[r][c] * by : fma(load_n(to, n), by, sum[r][c]), n);
    }
  }
}

/// All columns of kRows rows.
template <Into kInto, int kRows>
void all_columns(const float* const* a, const Rows& b, int64_t columns, const float* factor,
                 float* const* dst) {
  constexpr int64_t kWide = kVecs * Vec::W;
  int64_t at = 0;
  for (; columns - at >= kWide; at += kWide) product<kInto, kRows, kVecs>(a, b, at, Vec::W, factor, dst);
  const int64_t rest = columns - at;
  if (rest == 2 * Vec::W) return product<kInto, kRows, 2>(a, b, at, Vec::W, factor, dst);
  if (rest == Vec::W) return product<kInto, kRows, 1>(a, b, at, Vec::W, factor, dst);
  if (rest > 2 * Vec::W) return product<kInto, kRows, kVecs>(a, b, at, rest - 2 * Vec::W, factor, dst);
  if (rest > Vec::W) return product<kInto, kRows, 2>(a, b, at, rest - Vec::W, factor, dst);
  if (rest > 0) product<kInto, kRows, 1>(a, b, at, rest, factor, dst);
}

/// n <= kTile rows; lists hold kTile, those behind the last repeat it.
template <Into kInto>
DPI_INLINE void tile(int64_t n, const float* const* a, const Rows& b, int64_t columns, const float* factor,
                     float* const* dst) {
  if (n == 1) return all_columns<kInto, 1>(a, b, columns, factor, dst);
  if (n <= kTile / 2) return all_columns<kInto, kTile / 2>(a, b, columns, factor, dst);
  all_columns<kInto, kTile>(a, b, columns, factor, dst);
}

/// A vector of keys side by side, column by column; what is behind the last key is 0.
DPI_INLINE void turn_keys(const float* k, const HeadLayout& l, int64_t h, const int32_t* keys, int64_t n,
                          int64_t dim, int64_t ld, float* turned) {
  for (int64_t first = 0; first < n; first += Vec::W) {
    const float* from[Vec::W];
    const int64_t some = min_of<int64_t>(Vec::W, n - first);
    for (int64_t j = 0; j < some; ++j) from[j] = position_of(k, l, h, keys[first + j]);
    float* to = turned + first;
    for (int64_t c = 0; c < dim; ++c, to += ld) {
      for (int64_t j = 0; j < some; ++j) to[j] = from[j][c];
      for (int64_t j = some; j < Vec::W; ++j) to[j] = 0;
    }
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
