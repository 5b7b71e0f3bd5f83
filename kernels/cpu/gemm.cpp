#include "kernels/cpu/gemm.hpp"

#include "kernels/cpu/spans.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

// Registers: kTileRows x kPanelVecs sums, kPanelVecs columns of the panel and one broadcast of x.
#if defined(DPI_ISA_AVX512)
constexpr int kTileRows = 8;
constexpr int kPanelVecs = 3;
#elif defined(DPI_ISA_AVX2)
constexpr int kTileRows = 4;
constexpr int kPanelVecs = 3;
#else
constexpr int kTileRows = 2;
constexpr int kPanelVecs = 3;
#endif
constexpr int kPanel = kPanelVecs * Vec::W;
constexpr int64_t kBlockFloats =
    64 * 1024;  // of x: a block of rows stays in the second-level cache while panels pass

/// What is done with the sums of one panel's columns.
struct Epilogue {
  bool simple;  // identity or relu over the whole panel
  bool relu;
};

/// One tile: `rows` rows of x against one panel.
struct Tile {
  const GemmCall* call;
  const float* panel;
  int64_t row;
  int64_t col;
  int64_t cols;  // columns of dst in this panel
  Epilogue epilogue;
};

template <int MR, int NV>
DPI_INLINE void accumulate(const Tile& t, Vec (&sum)[MR][NV]) {
  const int64_t ldx = t.call->ldx, depth = t.call->k;
  const float* x = t.call->x + t.row * ldx;
  const float* b = t.panel;
  DPI_UNROLL
  for (int i = 0; i < MR; ++i) {
    DPI_UNROLL
    for (int v = 0; v < NV; ++v) sum[i][v] = Vec::zero();
  }
  for (int64_t k = 0; k < depth; ++k, b += NV * Vec::W) {
    Vec w[NV];
    DPI_UNROLL
    for (int v = 0; v < NV; ++v) w[v] = Vec::load(b + v * Vec::W);
    DPI_UNROLL
    for (int i = 0; i < MR; ++i) {
      const Vec a = Vec::all(x[i * ldx + k]);
      DPI_UNROLL
      for (int v = 0; v < NV; ++v) sum[i][v] = fma(a, w[v], sum[i][v]);
    }
  }
}

/// What the columns from `col` on of row r have of the rows that many rows share.
DPI_INLINE const float* shared_part(const GemmCall& c, int64_t r, int64_t col) {
  return c.shared + (c.row_map == nullptr ? r : c.row_map[r]) * c.ld_shared + col;
}

template <int MR, int NV>
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
      Vec h = sum[i][v] + bias;
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
void finish_row(const Tile& t, int64_t r, float* h) {
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

template <int MR, int NV>
void run_tile(const Tile& t) {
  Vec sum[MR][NV];
  accumulate<MR, NV>(t, sum);
  if (t.epilogue.simple) {
    finish_simple<MR, NV>(t, sum);
    return;
  }
  alignas(64) float h[NV * Vec::W];
  DPI_UNROLL
  for (int i = 0; i < MR; ++i) {
    DPI_UNROLL
    for (int v = 0; v < NV; ++v) sum[i][v].store(h + v * Vec::W);
    finish_row(t, t.row + i, h);
  }
}

template <int NV>
void run_rows(const Tile& t, int64_t rows) {
  static_assert(kTileRows <= 8);
  switch (min_of<int64_t>(rows, kTileRows)) {
    case 1:
      return run_tile<1, NV>(t);
    case 2:
      return run_tile<min_of(2, kTileRows), NV>(t);
    case 3:
      return run_tile<min_of(3, kTileRows), NV>(t);
    case 4:
      return run_tile<min_of(4, kTileRows), NV>(t);
    case 5:
      return run_tile<min_of(5, kTileRows), NV>(t);
    case 6:
      return run_tile<min_of(6, kTileRows), NV>(t);
    case 7:
      return run_tile<min_of(7, kTileRows), NV>(t);
    default:
      return run_tile<kTileRows, NV>(t);
  }
}

Epilogue epilogue_of(const GemmCall& c, int64_t col, int64_t cols) {
  if (c.n_segments == 0) return {true, false};
  for (int32_t s = 0; s < c.n_segments; ++s) {
    const DenseSegment& seg = c.segments[s];
    if (seg.begin > col || seg.end < col + cols) continue;
    const bool relu = seg.act.kind == UnaryKind::kRelu;
    return {relu || seg.act.kind == UnaryKind::kIdentity, relu};
  }
  return {false, false};
}

/// Rows [first, first + rows) against one panel, in tiles of nearly equal height.
void run_block(const GemmCall& c, int64_t first, int64_t rows, int64_t col) {
  Tile t{&c, c.packed + col * c.k, first, col, min_of<int64_t>(c.n - col, kPanel), {}};
  t.epilogue = epilogue_of(c, col, t.cols);
  const int64_t vecs = (t.cols + Vec::W - 1) / Vec::W;
  int64_t tiles = (rows + kTileRows - 1) / kTileRows;
  for (int64_t left = rows; left > 0; --tiles) {
    const int64_t height = (left + tiles - 1) / tiles;
    if (vecs == 3) run_rows<3>(t, height);
    if (vecs == 2) run_rows<2>(t, height);
    if (vecs == 1) run_rows<1>(t, height);
    t.row += height;
    left -= height;
  }
}

}  // namespace

int64_t gemm_packed_floats(int64_t n, int64_t k) { return (n + Vec::W - 1) / Vec::W * Vec::W * k; }

void gemm_pack(const float* weight, int64_t n, int64_t k, float* packed) {
  for (int64_t col = 0; col < n; col += kPanel) {
    const int64_t width = min_of<int64_t>(kPanel, (n - col + Vec::W - 1) / Vec::W * Vec::W);
    float* panel = packed + col * k;
    for (int64_t r = 0; r < k; ++r) {
      for (int64_t j = 0; j < width; ++j)
        panel[r * width + j] = col + j < n ? weight[(col + j) * k + r] : 0.0f;
    }
  }
}

void gemm(const GemmCall& c) {
  int64_t block = kBlockFloats / max_of<int64_t>(c.k, 1) / kTileRows * kTileRows;
  block = max_of<int64_t>(block, 8 * kTileRows);
  for (int64_t first = 0; first < c.m; first += block) {
    const int64_t rows = min_of(block, c.m - first);
    for (int64_t col = 0; col < c.n; col += kPanel) run_block(c, first, rows, col);
  }
}

}  // namespace dpi::kernels::cpu::DPI_ISA
