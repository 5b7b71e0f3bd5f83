// The common part of all packed products: panels of columns, tiles of rows against a panel, the end of their
// sums. A product says how its weights and rows of x are read. Included by sources compiled per instruction
// set only.
//
//   struct Product {
//     using Word = ..;                       // of packed weights
//     static int64_t words(int64_t k);       // of a packed column
//     static void begin(c, first, rows);     // before the tiles of rows [first, first + rows)
//     template <int MR, int NV> static void accumulate(const Tile& t, Vec (&sum)[MR][NV]);
//     template <int NV> static Vec value(const Tile& t, int i, int v, Vec sum);  // of sum[i][v]
//     static constexpr int kWideRows;        // up to so many rows, 4 at most, are a
//                                            // wide tile, whose weights `Columns` finds
//   };
#pragma once

#include "kernels/cpu/gemm.hpp"
#include "kernels/cpu/simd/prefetch.hpp"
#include "kernels/cpu/spans.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

// Registers: kTileRows x kPanelVecs sums, kPanelVecs columns of the panel and one broadcast of x.
#if defined(DPI_ISA_AMX) || defined(DPI_ISA_TILE_MODEL)  // gemm_amx.cpp has loops of its own
constexpr int kTileRows = 8;
constexpr int kPanelVecs = 16 / Vec::W;
#elif defined(DPI_ISA_AVX512) || defined(DPI_ISA_AVX512_BF16) || defined(DPI_ISA_AVX512_VNNI)
constexpr int kTileRows = 8;
constexpr int kPanelVecs = 3;
#elif defined(DPI_ISA_NEON_MMLA)  // sums of two rows by two columns a register
constexpr int kTileRows = 8;
constexpr int kPanelVecs = 3;
#elif defined(DPI_ISA_AVX2)
constexpr int kTileRows = 4;
constexpr int kPanelVecs = 3;
#elif defined(DPI_ISA_NEON) || defined(DPI_ISA_NEON_DOT)  // a row of x keeps a register: four steps, by lanes
constexpr int kTileRows = 7;
constexpr int kPanelVecs = 3;
#else
constexpr int kTileRows = 2;
constexpr int kPanelVecs = 3;
#endif
constexpr int kPanel = kPanelVecs * Vec::W;
// Rows that are multiplied together: a tile begins with the first of them.
#if defined(DPI_ISA_NEON_MMLA)
constexpr int kRowUnit = 2;
#else
constexpr int kRowUnit = 1;
#endif
// Few rows against one panel, or against the narrow one behind the last whole panel, are too few sums to keep
// the multipliers busy while each waits for itself, so these take several panels at once: so many sums as
// kWideSums, of kWideVecs vectors at most. 0: one panel, as taller tiles.
#if defined(DPI_ISA_AVX512) || defined(DPI_ISA_AVX512_BF16) || defined(DPI_ISA_AVX512_VNNI) || \
    defined(DPI_ISA_AMX) || defined(DPI_ISA_NEON) || defined(DPI_ISA_NEON_DOT) || defined(DPI_ISA_NEON_MMLA)
constexpr int kWideSums = 24;
#elif defined(DPI_ISA_AVX2)
constexpr int kWideSums = 12;
#else
constexpr int kWideSums = 0;
#endif
constexpr int kWideVecs = 12;

/// Vectors of a wide tile of so many rows: whole panels.
constexpr int wide_vecs(int rows) {
  const int vecs = kWideSums / rows / kPanelVecs * kPanelVecs;
  return vecs < kWideVecs ? vecs : kWideVecs;
}

// Of x: a block of rows stays in the second-level cache while panels pass. Processors with AVX-512 have 1 MiB
// of it and more; there the larger block reads weights from further away half as often, 2 % of DCNv2 3 x
// 1024. Rows that are made narrow first take a block of their own beside it.
#if defined(DPI_ISA_AVX512)
constexpr int64_t kBlockFloats = 128 * 1024;
#else
constexpr int64_t kBlockFloats = 64 * 1024;
#endif

/// Rows of x that all panels pass over before the next ones.
DPI_INLINE int64_t block_rows(int64_t k) {
  return max_of<int64_t>(kBlockFloats / max_of<int64_t>(k, 1) / kTileRows * kTileRows, 8 * kTileRows);
}

/// How the sums of one panel's columns are finished.
struct Epilogue {
  bool simple;  // identity or relu over the whole panel
  bool relu;
};

/// One tile: some rows of x against one panel.
struct Tile {
  const GemmCall* call;
  const void* panel;
  int64_t first;  // row of the block
  int64_t row;
  int64_t col;
  int64_t cols;  // columns of dst in this panel
  Epilogue epilogue;
};

/// A tile's weights: whole panels, and behind them one with what is left of NV vectors.
template <class Word, int NV>
struct Columns {
  const Word* first;
  int64_t panel_words;

  /// Vector v of step `step` of the packed columns.
  DPI_INLINE const Word* at(int64_t step, int v) const {
    const int panel = v / kPanelVecs, vecs = min_of(kPanelVecs, NV - panel * kPanelVecs);
    return first + panel * panel_words + (step * vecs + v % kPanelVecs) * Vec::W;
  }
};

template <class Product, int NV>
DPI_INLINE Columns<typename Product::Word, NV> columns_of(const Tile& t) {
  return {static_cast<const typename Product::Word*>(t.panel), kPanel * Product::words(t.call->k)};
}

template <int MR, int NV>
DPI_INLINE void start_sums(Vec (&sum)[MR][NV]) {
  DPI_UNROLL
  for (int i = 0; i < MR; ++i) {
    DPI_UNROLL
    for (int v = 0; v < NV; ++v) sum[i][v] = Vec::zero();
  }
}

/// One step of every sum: sum = step(sum, row(i), weights(v)). What is used often waits in registers: weights
/// in a tall tile, rows in a wide one.
template <int MR, int NV, class Row, class Weights, class Step>
DPI_INLINE void add_step(Vec (&sum)[MR][NV], const Row& row, const Weights& weights, const Step& step) {
  if constexpr (NV > kPanelVecs) {
    decltype(row(0)) a[MR];
    DPI_UNROLL
    for (int i = 0; i < MR; ++i) a[i] = row(i);
    DPI_UNROLL
    for (int v = 0; v < NV; ++v) {
      const auto w = weights(v);
      DPI_UNROLL
      for (int i = 0; i < MR; ++i) sum[i][v] = step(sum[i][v], a[i], w);
    }
  } else {
    decltype(weights(0)) w[NV];
    DPI_UNROLL
    for (int v = 0; v < NV; ++v) w[v] = weights(v);
    DPI_UNROLL
    for (int i = 0; i < MR; ++i) {
      const auto a = row(i);
      DPI_UNROLL
      for (int v = 0; v < NV; ++v) sum[i][v] = step(sum[i][v], a, w[v]);
    }
  }
}

/// One term of every sum. x: of the first row; weights(v): vector v of its columns.
template <int MR, int NV, class Weights>
DPI_INLINE void add_terms(const float* x, int64_t ldx, Vec (&sum)[MR][NV], const Weights& weights) {
  add_step(
      sum, [&](int i) { return Vec::all(x[i * ldx]); }, weights,
      [](Vec s, Vec a, Vec w) { return fma(a, w, s); });
}

#if defined(DPI_ISA_NEON)
/// Terms k .. k + 3 of every sum, in this order: what add_terms does four times, with one load a row.
/// weights(term, v): vector v of the columns of k + term.
template <int MR, int NV, class Weights>
DPI_INLINE void add_four_terms(const float* x, int64_t ldx, Vec (&sum)[MR][NV], const Weights& weights) {
  Vec four[MR];
  DPI_UNROLL
  for (int i = 0; i < MR; ++i) four[i] = Vec::load(x + i * ldx);
  for_constants<4>([&]<int kTerm>() {
    add_step(
        sum, [&](int i) { return four[i]; }, [&](int v) { return weights(kTerm, v); },
        [](Vec s, Vec a, Vec w) { return fma_lane<kTerm>(a, w, s); });
  });
}
#endif

/// The part shared by many rows that is added to columns from `col` on of row r.
DPI_INLINE const float* shared_part(const GemmCall& c, int64_t r, int64_t col) {
  return c.shared + (c.row_map == nullptr ? r : c.row_map[r]) * c.ld_shared + col;
}

template <class Product, int MR, int NV>
DPI_INLINE void finish_simple(const Tile& t, const Vec (&sum)[MR][NV]) {
  const GemmCall& c = *t.call;
  DPI_UNROLL
  for (int v = 0; v < NV; ++v) {
    const int64_t n = min_of<int64_t>(t.cols - v * Vec::W, Vec::W);
    if (n <= 0) return;
    const int64_t col = t.col + v * Vec::W;
    const Vec bias = c.bias == nullptr ? Vec::zero() : load_n(c.bias + col, n);
    DPI_UNROLL
    for (int i = 0; i < MR; ++i) {
      const int64_t r = t.row + i;
      Vec h = Product::template value<NV>(t, i, v, sum[i][v]);
      if (c.bias != nullptr) h = h + bias;  // 0 in its place would make +0 of -0, as finish_row does not
      if (c.shared != nullptr) h = h + load_n(shared_part(c, r, col), n);
      if (t.epilogue.relu) h = max(Vec::zero(), h);
      if (c.mul != nullptr) h = h * load_n(c.mul + r * c.ld_mul + col, n);
      if (c.add != nullptr) h = h + load_n(c.add + r * c.ld_add + col, n);
      store_n(c.dst + r * c.ldd + col, h, n);
    }
  }
}

/// Activations that need more than a register pass: h holds the sums of one row's columns [t.col, t.col +
/// t.cols).
inline void finish_row(const Tile& t, int64_t r, float* h) {
  const GemmCall& c = *t.call;
  const Span sums{h, 1};
  if (c.bias != nullptr) binary_span(BinaryKind::kAdd, sums, {c.bias + t.col, 1}, h, t.cols);
  if (c.shared != nullptr) binary_span(BinaryKind::kAdd, sums, {shared_part(c, r, t.col), 1}, h, t.cols);
  for (int32_t s = 0; s < c.n_segments; ++s) {
    const int64_t begin = max_of(c.segments[s].begin, t.col);
    const int64_t end = min_of(c.segments[s].end, t.col + t.cols);
    if (begin >= end) continue;
    SpanUnary f{c.segments[s].act, {}};
    for (int k = 0; k < 3; ++k) f.p[k] = {c.p[k] == nullptr ? nullptr : c.p[k] + begin, 1};
    unary_span(f, {h + (begin - t.col), 1}, h + (begin - t.col), end - begin);
  }
  if (c.mul != nullptr) binary_span(BinaryKind::kMul, sums, {c.mul + r * c.ld_mul + t.col, 1}, h, t.cols);
  if (c.add != nullptr) binary_span(BinaryKind::kAdd, sums, {c.add + r * c.ld_add + t.col, 1}, h, t.cols);
  copy_floats(c.dst + r * c.ldd + t.col, h, t.cols);
}

template <class Product, int MR, int NV>
DPI_INLINE void finish(const Tile& t, const Vec (&sum)[MR][NV]) {
  if (t.epilogue.simple) {
    finish_simple<Product, MR, NV>(t, sum);
    return;
  }
  alignas(64) float h[NV * Vec::W];
  DPI_UNROLL
  for (int i = 0; i < MR; ++i) {
    DPI_UNROLL
    for (int v = 0; v < NV; ++v) Product::template value<NV>(t, i, v, sum[i][v]).store(h + v * Vec::W);
    finish_row(t, t.row + i, h);
  }
}

template <class Product, int MR, int NV>
void run_tile(const Tile& t) {
  Vec sum[MR][NV];
  Product::template accumulate<MR, NV>(t, sum);
  finish<Product, MR, NV>(t, sum);
}

template <class Product, int NV>
void run_rows(const Tile& t, int64_t rows) {
  static_assert(kTileRows <= 8);
  switch (min_of<int64_t>(rows, kTileRows)) {
    case 1:
      return run_tile<Product, 1, NV>(t);
    case 2:
      return run_tile<Product, min_of(2, kTileRows), NV>(t);
    case 3:
      return run_tile<Product, min_of(3, kTileRows), NV>(t);
    case 4:
      return run_tile<Product, min_of(4, kTileRows), NV>(t);
    case 5:
      return run_tile<Product, min_of(5, kTileRows), NV>(t);
    case 6:
      return run_tile<Product, min_of(6, kTileRows), NV>(t);
    case 7:
      return run_tile<Product, min_of(7, kTileRows), NV>(t);
    default:
      return run_tile<Product, kTileRows, NV>(t);
  }
}

inline Epilogue epilogue_of(const GemmCall& c, int64_t col, int64_t cols) {
  if (c.n_segments == 0) return {true, false};
  for (int32_t s = 0; s < c.n_segments; ++s) {
    const DenseSegment& seg = c.segments[s];
    if (seg.begin > col || seg.end < col + cols) continue;
    const bool relu = seg.act.kind == UnaryKind::kRelu;
    return {relu || seg.act.kind == UnaryKind::kIdentity, relu};
  }
  return {false, false};
}

/// The tile at row `first` and column `col`.
template <class Product>
DPI_INLINE Tile tile_at(const GemmCall& c, int64_t first, int64_t col, int64_t cols) {
  const auto* packed = static_cast<const typename Product::Word*>(c.packed);
  return {&c, packed + col * Product::words(c.k), first, first, col, cols, epilogue_of(c, col, cols)};
}

/// Rows [first, first + rows) against one panel, in tiles of nearly equal height.
template <class Product>
void run_block(const GemmCall& c, int64_t first, int64_t rows, int64_t col) {
  Tile t = tile_at<Product>(c, first, col, min_of<int64_t>(c.n - col, kPanel));
  const int64_t vecs = (t.cols + Vec::W - 1) / Vec::W;
  int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (int64_t left = rows; left > 0; --tiles) {
    const int64_t even = ((left + tiles - 1) / tiles + kRowUnit - 1) / kRowUnit * kRowUnit;
    const int64_t height = min_of(even, left);
    if (vecs == 3) run_rows<Product, 3>(t, height);
    if (vecs == 2) run_rows<Product, 2>(t, height);
    if (vecs == 1) run_rows<Product, 1>(t, height);
    t.row += height;
    left -= height;
  }
}

/// The first column of part `part`.
DPI_INLINE int64_t part_begin(const GemmCall& c, int32_t part) {
  return (c.n + kPanel - 1) / kPanel * part / c.parts * kPanel;
}

/// The wide tile of `vecs` <= NV vectors of columns.
template <class Product, int MR, int NV>
void run_vecs(const Tile& t, int64_t vecs) {
  if (vecs == NV) return run_tile<Product, MR, NV>(t);
  if constexpr (NV > 1) run_vecs<Product, MR, NV - 1>(t, vecs);
}

/// MR rows against the columns [begin, end) in wide tiles of nearly equal width.
template <class Product, int MR>
void run_wide(const GemmCall& c, int64_t first, int64_t begin, int64_t end) {
  constexpr int kVecs = wide_vecs(MR);
  int64_t panels = (end - begin + kPanel - 1) / kPanel;
  int64_t tiles = (panels * kPanelVecs + kVecs - 1) / kVecs;
  for (int64_t col = begin; col < end; --tiles) {
    const int64_t width = (panels + tiles - 1) / tiles;
    const int64_t cols = min_of(width * kPanel, end - col);
    run_vecs<Product, MR, kVecs>(tile_at<Product>(c, first, col, cols), (cols + Vec::W - 1) / Vec::W);
    panels -= width;
    col += cols;
  }
}

/// The wide tile of `rows` <= MR rows.
template <class Product, int MR>
void run_wide_rows(const GemmCall& c, int64_t first, int64_t rows, int64_t begin, int64_t end) {
  if (rows == MR) return run_wide<Product, MR>(c, first, begin, end);
  if constexpr (MR > 1) run_wide_rows<Product, MR - 1>(c, first, rows, begin, end);
}

/// Rows of x on their way together: of a part of few rows another thread's core has them, and one line after
/// another would be waited for.
inline void ask_rows(const GemmCall& c) {
  for (int64_t r = 0; r < c.m; ++r) {
    prefetch_bytes(reinterpret_cast<const char*>(c.x + r * c.ldx), c.k * static_cast<int64_t>(sizeof(float)));
  }
}

template <class Product>
void run_gemm(const GemmCall& c) {
  if (c.parts > 1 && c.m <= kTileRows) ask_rows(c);
  const int64_t block = block_rows(c.k), begin = part_begin(c, c.part);
  const int64_t end = min_of(part_begin(c, c.part + 1), c.n);
  for (int64_t first = 0; first < c.m; first += block) {
    const int64_t rows = min_of(block, c.m - first);
    Product::begin(c, first, rows);
    if constexpr (kWideSums > 0) {
      if (rows <= Product::kWideRows) {
        run_wide_rows<Product, Product::kWideRows>(c, first, rows, begin, end);
        continue;
      }
    }
    for (int64_t col = begin; col < end; col += kPanel) run_block<Product>(c, first, rows, col);
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
