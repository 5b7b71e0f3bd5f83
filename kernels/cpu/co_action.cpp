// CoAction: the items of a row that count are laid out as rows of a small matrix, order by order, and go
// through the micro-MLP as products of registers: tiles of up to 12 rows read each weight once. (Items side
// by side in lanes use vectors better and are slower: 0.69 us a row of msweb_can.h5 for 0.46, and no faster
// where histories are full, because there the activations take the time.)
#include <dpi/kernels/co_action.hpp>

#include "kernels/cpu/pool.hpp"
#include "kernels/cpu/simd/vec.hpp"
#include "kernels/cpu/spans.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

namespace {

constexpr int64_t kBlockItems = 64;  // of a history that go through the levels together
constexpr int64_t kBlockNumbers =
    4 * 256;  // of one level: four items at the widest; a call promises its stack
constexpr int kTileRows = 12;

struct Numbers {
  alignas(64) float x[kBlockNumbers];
  alignas(64) float y[kBlockNumbers];
};

/// dst[rows, n] = a[rows, k] w[k, n] + bias; all without gaps.
struct MicroProduct {
  const float* a;
  const float* w;
  const float* bias;  // or null
  float* dst;
  int64_t rows, k, n;
};

/// The first kRows rows. A row's sums do not depend on how many others share its tile.
template <int kRows>
void tile(const MicroProduct& p) {
  for_vectors(p.n, [&](int64_t j, int64_t lanes) {
    const Vec start = p.bias == nullptr ? Vec::zero() : load_n(p.bias + j, lanes);
    Vec sum[kRows];
    DPI_UNROLL
    for (int r = 0; r < kRows; ++r) sum[r] = start;
    for (int64_t i = 0; i < p.k; ++i) {
      const Vec w = load_n(p.w + i * p.n + j, lanes);
      DPI_UNROLL
      for (int r = 0; r < kRows; ++r) sum[r] = fma(Vec::all(p.a[r * p.k + i]), w, sum[r]);
    }
    DPI_UNROLL
    for (int r = 0; r < kRows; ++r) store_n(p.dst + r * p.n + j, sum[r], lanes);
  });
}

/// The tile of exactly p.rows rows, at most kRows.
template <int kRows>
void last_tile(const MicroProduct& p) {
  if (p.rows == kRows) return tile<kRows>(p);
  if constexpr (kRows > 1) last_tile<kRows - 1>(p);
}

void product(MicroProduct p) {
  for (; p.rows > kTileRows; p.rows -= kTileRows) {
    tile<kTileRows>(p);
    p.a += kTileRows * p.k;
    p.dst += kTileRows * p.n;
  }
  last_tile<kTileRows>(p);
}

/// How often the micro-MLP runs over an item, and how many items fit a block.
struct Shape {
  int64_t runs;
  int64_t items;
};

Shape shape_of(const CoActionAttrs& a) {
  Shape s{a.joined != 0 ? 1 : a.orders, 0};
  int64_t widest = int64_t{a.orders} * a.feed_dim;
  for (int32_t l = 0; l < a.n_levels; ++l) widest = max_of(widest, s.runs * a.levels[l].outputs);
  s.items = min_of(kBlockItems, kBlockNumbers / widest);
  return s;
}

/// x [orders, items, feed_dim], or [items, orders * feed_dim] where orders are joined, from order 1 at its
/// places.
void raise(const CoActionAttrs& a, int64_t items, float* x) {
  const int64_t n = a.feed_dim;
  const int64_t row = a.joined != 0 ? a.orders * n : n;
  const int64_t step = a.joined != 0 ? n : items * n;
  for (int64_t t = 0; t < items; ++t) {
    for_vectors(n, [&](int64_t i, int64_t lanes) {
      const Vec feed = load_n(x + t * row + i, lanes);
      Vec power = feed;
      for (int64_t p = 1; p < a.orders; ++p) {
        power = power * feed;
        store_n(x + t * row + p * step + i, power, lanes);
      }
    });
  }
}

/// dst[.. n] += the sum over items of y [items, n], in their order.
void collect(const float* y, int64_t items, int64_t n, float* dst) {
  for_vectors(n, [&](int64_t j, int64_t lanes) {
    Vec sum = load_n(dst + j, lanes);
    for (int64_t t = 0; t < items; ++t) sum = sum + load_n(y + t * n + j, lanes);
    store_n(dst + j, sum, lanes);
  });
}

/// All levels over the items whose first order lies in b.x; adds what is collected to dst.
void add_block(const CoActionAttrs& a, const Shape& shape, const float* induction, int64_t items, Numbers& b,
               float* dst) {
  raise(a, items, b.x);
  float *x = b.x, *y = b.y;
  for (int32_t l = 0; l < a.n_levels; ++l) {
    const MicroLevel& level = a.levels[l];
    const int64_t k = level.inputs, n = level.outputs;
    const int64_t products = a.weight_step == 0 ? 1 : shape.runs;
    const int64_t rows = items * shape.runs / products;
    for (int64_t p = 0; p < products; ++p) {
      const float* w = induction + p * a.weight_step;
      product({x + p * rows * k, w + level.weight, level.bias < 0 ? nullptr : w + level.bias,
               y + p * rows * n, rows, k, n});
    }
    if (level.act.kind != UnaryKind::kIdentity)
      unary_span({level.act, {}}, {y, 1}, y, items * shape.runs * n);
    for (int64_t p = 0; level.out_col >= 0 && p < shape.runs; ++p)
      collect(y + p * items * n, items, n, dst + level.out_col + p * a.out_step);
    float* const free = x;
    x = y;
    y = free;
  }
}

/// The columns that the feed reads of row `id`.
template <DType T>
DPI_INLINE void take_feed(const CoActionAttrs& a, const TableView& t, int64_t id, float* dst) {
  const char* row = table_row(t, id);
  const RowScale scale = row_scale<T>(t, id);
  for_vectors(a.feed_dim,
              [&](int64_t i, int64_t n) { store_n(dst + i, load_row<T>(row, scale, a.feed_col + i, n), n); });
}

DPI_INLINE Bag history_at(const CoActionArgs& a, int64_t r) {
  return bag_at(a.ids, a.row_map == nullptr ? r : a.row_map[r]);
}

void prefetch_history(const CoActionArgs& a, int64_t r) {
  if (r >= a.dst.rows) return;
  const Bag bag = history_at(a, r);
  const int64_t begin = elements_bytes(a.table.dtype, a.attrs.feed_col);
  const int64_t bytes = elements_bytes(a.table.dtype, a.attrs.feed_dim);
  for (int64_t t = 0; t < min_of(bag.n, kBlockItems); ++t)
    prefetch_bytes(table_row(a.table, bag.ids[t]) + begin, bytes);
}

/// Gives the number of items that count.
template <DType T>
int64_t add_history(const CoActionArgs& a, const Shape& shape, int64_t r, Numbers& b, float* dst) {
  const Bag bag = history_at(a, r);
  const int64_t row = a.attrs.joined != 0 ? a.attrs.orders * a.attrs.feed_dim : a.attrs.feed_dim;
  int64_t counted = 0, items = 0;
  for (int64_t t = 0; t < bag.n; ++t) {
    if (a.attrs.mask == MaskRule::kId && bag.ids[t] == a.attrs.pad_id) continue;
    take_feed<T>(a.attrs, a.table, bag.ids[t], b.x + items * row);
    ++counted;
    if (++items < shape.items) continue;
    add_block(a.attrs, shape, row_of(a.induction, r), items, b, dst);
    items = 0;
  }
  if (items > 0) add_block(a.attrs, shape, row_of(a.induction, r), items, b, dst);
  return counted;
}

void divide(float* x, int64_t n, int64_t divisor) {
  const Vec d = Vec::all(static_cast<float>(divisor));
  for_vectors(n, [&](int64_t i, int64_t lanes) { store_n(x + i, load_n(x + i, lanes) / d, lanes); });
}

void clear(float* x, int64_t n) {
  for_vectors(n, [&](int64_t i, int64_t lanes) { store_n(x + i, Vec::zero(), lanes); });
}

template <DType T>
void histories(const CoActionArgs& a, const Shape& shape) {
  Numbers b;
  const int64_t n = dims_size(a.dst.dims);
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    prefetch_history(a, r + 1);
    float* dst = row_of(a.dst, r);
    clear(dst, n);
    const int64_t counted = add_history<T>(a, shape, r, b, dst);
    if (a.attrs.mean != 0 && counted > 1) divide(dst, n, counted);
  }
}

void single_values(const CoActionArgs& a, const Shape& shape) {
  Numbers b;
  for (int64_t r = 0; r < a.dst.rows; ++r) {
    float* dst = row_of(a.dst, r);
    clear(dst, dims_size(a.dst.dims));
    copy_floats(b.x, row_of(a.x, r) + a.attrs.feed_col, a.attrs.feed_dim);
    add_block(a.attrs, shape, row_of(a.induction, r), 1, b, dst);
  }
}

}  // namespace

void co_action(const CoActionArgs& a) {
  const Shape shape = shape_of(a.attrs);
  if (a.attrs.max_len == 0) return single_values(a, shape);
  with_dtype(a.table.dtype, [&]<DType T>() { histories<T>(a, shape); });
}

}  // namespace dpi::kernels::cpu::DPI_ISA
