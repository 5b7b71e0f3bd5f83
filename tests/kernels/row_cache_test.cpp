// Lookups of tables some of whose rows lie in a row cache, over the emulation: the bits of the same lookup
// without one, whatever share of the rows is there, of every width, type, pooling, with scales and scalars in
// the rows. Rows that are in the cache are NaN in the table here, and lines without a tag are NaN too, so
// whoever reads the wrong one of the two is found.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "kernels/cuda/lookup/lookup.hpp"
#include "kernels/cuda/lookup/row_cache.hpp"
#include "kernels/emu/device_emu.hpp"
#include "kernels/lookup_model.hpp"

namespace dpi::test::row_cache_test {
namespace {

using kernels::cuda::LookupKind;
using kernels::cuda::LookupOptions;
using kernels::cuda::LookupVariant;

constexpr uint32_t kSets = 3;  // 48 lines for 23 rows: none of a set's is without a line

/// One block of rows, its cache, and what the host knows of it.
struct CachedTable {
  std::shared_ptr<char> rows, lines, tags;
  int64_t stride = 0;
  RowCache cache;

  CachedTable(int64_t n, int64_t row_bytes, uint32_t sets) : stride(row_bytes) {
    const size_t line_bytes = static_cast<size_t>(sets) * kCacheWays * static_cast<size_t>(stride);
    rows = aligned_block(static_cast<size_t>(n * stride) + 256);
    lines = aligned_block(line_bytes + 256);
    tags = aligned_block(size_t{sets} * kCacheWays * sizeof(uint32_t));
    std::memset(lines.get(), 0xFF, line_bytes + 256);
    std::memset(tags.get(), 0, size_t{sets} * kCacheWays * sizeof(uint32_t));
    cache.tags = reinterpret_cast<uint32_t*>(tags.get());
    cache.sets = sets;
  }
  char* row(int64_t r) const { return base() + r * stride; }
  char* base() const { return rows.get() + shift; }
  char* line_base() const { return lines.get() + shift; }
  void point() {
    cache.delta = reinterpret_cast<uintptr_t>(line_base()) - reinterpret_cast<uintptr_t>(base());
  }
  int64_t shift = 0;  // 4: nothing may be read in wide words

  /// Puts a row into the first free line of its set; the table's own becomes NaN.
  void move_to_cache(int64_t r) {
    auto* const tag = reinterpret_cast<uint32_t*>(tags.get());
    uint32_t line = cache_set(static_cast<uint32_t>(r), cache.sets) * kCacheWays;
    while (tag[line] != 0) ++line;
    REQUIRE(line / kCacheWays == cache_set(static_cast<uint32_t>(r), cache.sets));
    tag[line] = static_cast<uint32_t>(r) + 1;
    std::memcpy(line_base() + line * stride, row(r), static_cast<size_t>(stride));
    std::memset(row(r), 0xFF, static_cast<size_t>(stride));
  }
};

/// The model's tables as a host tier has them: scale and scalars of a row in the row.
class CachedModel {
 public:
  CachedModel(const LookupModel& m, const MultiLookupArgs& a) {
    const int64_t n = a.tables[0].rows;
    views_.assign(a.tables, a.tables + table_count(a));
    blocks_.reserve(views_.size());
    for (size_t t = 0; t < views_.size(); ++t) {
      TableView& v = views_[t];
      const char* const base = static_cast<const char*>(v.base);
      const bool rides = t > 0 && rides_with(a.tables[t - 1], a.tables[t]);
      if (!rides) add_block(m, v, n);
      CachedTable& home = blocks_.back();
      v.base = home.base() + (rides ? base - static_cast<const char*>(a.tables[t - 1].base) : 0);
      v.row_bytes = home.stride;
      if (!rides && v.dtype == DType::kI8) {
        v.scale = reinterpret_cast<const float*>(home.base() + home.stride - 16);
        v.scale_stride = home.stride / 4;
      }
      if (!asks_nonzero(a, static_cast<int32_t>(t), rides)) v.cache = &home.cache;
    }
    for (CachedTable& b : blocks_) b.point();
  }
  const TableView* views() const { return views_.data(); }
  /// This share of every table's rows.
  void fill(int percent) {
    for (CachedTable& b : blocks_) {
      const int64_t n = 23 * percent / 100;
      if (std::none_of(views_.begin(), views_.end(), [&](const TableView& v) { return v.cache == &b.cache; }))
        continue;
      for (int64_t r = 0; r < n; ++r) b.move_to_cache(r * 7 % 23);
    }
  }

 private:
  static size_t table_count(const MultiLookupArgs& a) {
    int32_t most = 0;
    for (int32_t i = 0; i < a.attrs.n_fields; ++i) most = std::max(most, a.attrs.fields[i].table);
    return static_cast<size_t>(most) + 2;  // every field's table has a rider behind it
  }
  static bool rides_with(const TableView& home, const TableView& v) {
    const auto at = static_cast<const char*>(v.base) - static_cast<const char*>(home.base);
    return at > 0 && at < home.row_bytes;
  }
  /// Such a table has no cache: a mask reads its rows for itself.
  static bool asks_nonzero(const MultiLookupArgs& a, int32_t table, bool rides) {
    const int32_t home = rides ? table - 1 : table;
    for (int32_t i = 0; i < a.attrs.n_fields; ++i) {
      const LookupField& f = a.attrs.fields[i];
      if (f.table == home && f.embed.mask == MaskRule::kNonzero) return true;
    }
    return false;
  }
  void add_block(const LookupModel& m, const TableView& v, int64_t n) {
    CachedTable& b = blocks_.emplace_back(n, v.row_bytes + 16, kSets);
    b.shift = m.shape().misaligned ? 4 : 0;
    for (int64_t r = 0; r < n; ++r) {
      std::memcpy(b.row(r), static_cast<const char*>(v.base) + r * v.row_bytes,
                  static_cast<size_t>(v.row_bytes));
      const float scale = v.dtype == DType::kI8 ? v.scale[r * v.scale_stride] : 0.0f;
      std::memcpy(b.row(r) + v.row_bytes, &scale, sizeof scale);
    }
  }
  std::vector<TableView> views_;
  std::vector<CachedTable> blocks_;
};

int start(const MultiLookupArgs& a, const LookupVariant& v) {
  LookupOptions o;
  o.variant = v;
  o.scratch_bytes = cuda::lookup_scratch_bytes(a.attrs, a.rows, v);
  const std::shared_ptr<char> scratch = aligned_block(o.scratch_bytes + 1);
  o.scratch = scratch.get();
  emu::Stream* stream = nullptr;
  emu::stream_create(&stream);
  const int code = cuda::multi_lookup(a, o, stream);
  const int ran = emu::stream_sync(stream);
  emu::stream_destroy(stream);
  return code != 0 ? code : ran;
}

struct Run {
  LookupOutput out, chan;
};

Run run(const LookupModel& m, const LookupVariant& v, const TableView* tables) {
  const int64_t rows = m.shape().rows;
  Run r = {LookupOutput(rows, m.columns(), m.stride(), m.shape().out),
           m.shape().fm ? LookupOutput(rows, 3, 5, DType::kF32) : LookupOutput(rows, 0, 1, DType::kF32)};
  MultiLookupArgs a = m.args(r.out, r.chan, rows);
  if (tables != nullptr) a.tables = tables;
  REQUIRE_MESSAGE(start(a, v) == 0, std::string(emu::last_error()));
  return r;
}

constexpr LookupVariant kVariants[] = {{LookupKind::kRows, 4, 4, 0, 0, 0},
                                       {LookupKind::kRows, 8, 4, 128, 1, 0},
                                       {LookupKind::kCopy, 4, 8, 64, 2, 1}};

void check_shape(const LookupShape& shape, size_t variants) {
  const LookupModel m(shape);
  for (size_t i = 0; i < variants; ++i) {
    const Run expected = run(m, kVariants[i], nullptr);
    for (const int percent : {0, 50, 90, 99, 100}) {
      INFO("dim " << shape.dim << " type " << static_cast<int>(shape.table) << " out "
                  << static_cast<int>(shape.out) << " variant " << i << ", " << percent << " %");
      CachedModel cached(m, m.args(expected.out, expected.chan, shape.rows));
      cached.fill(percent);
      const Run got = run(m, kVariants[i], cached.views());
      CHECK(got.out.same_rows(expected.out, shape.rows));
      CHECK(got.chan.same_rows(expected.chan, shape.rows));
      CHECK(got.out.bands_intact());
    }
  }
}

}  // namespace

TEST_CASE("row cache: every share of rows, type and width gives the bits of the table alone") {
  for (const int32_t dim : {1, 3, 8, 16, 20}) {
    for (const DType table : {DType::kF32, DType::kF16, DType::kBF16, DType::kI8, DType::kI4, DType::kFp8}) {
      check_shape({dim, table, DType::kF32, dim != 8, dim != 3, false, 11}, 1 + (dim == 16 ? 2 : 0));
      check_shape({dim, table, DType::kF16, dim == 8, dim == 3, false, 11}, 1);
    }
  }
}

TEST_CASE("row cache: rows that are not aligned, and vectors wider than a warp") {
  for (const DType table : {DType::kF32, DType::kF16, DType::kI8, DType::kI2})
    check_shape({10, table, DType::kF32, true, true, true, 11}, 3);
  check_shape({300, DType::kF32, DType::kF32, true, true, false, 5}, 2);
}

/// One field of one column: what a lookup of these ids reads.
std::vector<float> looked_up(const CachedTable& t, std::vector<int32_t> ids, int64_t rows) {
  TableView view;
  view.base = t.base();
  view.rows = rows;
  view.row_bytes = t.stride;
  view.dim = 1;
  view.cache = &t.cache;
  const auto n = static_cast<int64_t>(ids.size());
  Operand input;
  input.bags = {ids.data(), nullptr, nullptr, 1, n};
  LookupField field;
  field.out_col = 0;
  MultiLookupArgs a;
  a.attrs.fields = &field;
  a.attrs.n_fields = 1;
  a.inputs = &input;
  a.tables = &view;
  a.rows = n;
  const LookupOutput out(n, 1, 1, DType::kF32);
  a.out = out.tensor();
  REQUIRE(start(a, {}) == 0);
  std::vector<float> values;
  for (int64_t r = 0; r < n; ++r) values.push_back(out.at(r, 0));
  return values;
}

TEST_CASE("row cache: rows whose numbers differ in high bits only are told apart") {
  constexpr int64_t kRows = (int64_t{1} << 24) + 8;
  CachedTable t(kRows, 4, 1);  // one set: every row may be in every line
  t.point();
  std::vector<int32_t> ids;
  std::vector<float> expected;
  for (const int64_t high : {0, 1 << 8, 1 << 15, 1 << 16, 1 << 17, 1 << 20, 1 << 23, 1 << 24}) {
    ids.push_back(static_cast<int32_t>(5 + high));
    expected.push_back(static_cast<float>(ids.size()));
    std::memcpy(t.row(ids.back()), &expected.back(), sizeof(float));
  }
  for (const size_t cached : {0u, 3u, 7u}) t.move_to_cache(ids[cached]);
  CHECK(looked_up(t, ids, kRows) == expected);
}

TEST_CASE("row cache: lines that kernels fill are read, and those that they clear are not") {
  for (const int64_t stride : {4, 8, 16, 64, 96}) {
    CAPTURE(stride);
    CachedTable t(40, stride, kSets);
    t.point();
    std::vector<int32_t> ids;
    std::vector<float> expected;
    for (int32_t r = 0; r < 40; ++r) {
      ids.push_back(r);
      expected.push_back(static_cast<float>(r) + 0.5f);
      for (int64_t at = 0; at < stride; at += 4) std::memcpy(t.row(r) + at, &expected.back(), 4);
    }
    std::vector<CacheChange> changes;
    uint32_t used[kSets] = {};
    for (uint32_t r = 0; r < 40; r += 3) {
      const uint32_t set = cache_set(r, kSets);
      changes.push_back({set * kCacheWays + used[set]++, r + 1});
    }
    emu::Stream* stream = nullptr;
    REQUIRE(emu::stream_create(&stream) == 0);
    const auto n = static_cast<int32_t>(changes.size());
    auto* const tags = reinterpret_cast<uint32_t*>(t.tags.get());
    REQUIRE(cuda::copy_cache_rows(t.line_base(), t.base(), stride, changes.data(), n, stream) == 0);
    REQUIRE(cuda::set_cache_tags(tags, changes.data(), n, stream) == 0);
    REQUIRE(emu::stream_sync(stream) == 0);
    const std::vector<char> before(t.base(), t.base() + 40 * stride);
    for (uint32_t r = 0; r < 40; r += 3) std::memset(t.row(r), 0xFF, static_cast<size_t>(stride));
    CHECK(looked_up(t, ids, 40) == expected);
    for (CacheChange& c : changes) c.tag = 0;
    REQUIRE(cuda::set_cache_tags(tags, changes.data(), n, stream) == 0);
    REQUIRE(emu::stream_sync(stream) == 0);
    std::memcpy(t.base(), before.data(), before.size());
    std::memset(t.line_base(), 0xFF, static_cast<size_t>(kSets * kCacheWays * static_cast<uint64_t>(stride)));
    CHECK(looked_up(t, ids, 40) == expected);
    emu::stream_destroy(stream);
  }
}

TEST_CASE("row cache: a lookup is one node of a graph, with and without") {
  const LookupModel m({16, DType::kF32, DType::kF32, true, true, false, 9});
  const Run outputs = run(m, {}, nullptr);
  MultiLookupArgs a = m.args(outputs.out, outputs.chan, 9);
  CachedModel cached(m, a);
  cached.fill(50);
  size_t nodes[2] = {};
  for (const int with : {0, 1}) {
    if (with != 0) a.tables = cached.views();
    emu::Stream* stream = nullptr;
    emu::Graph* graph = nullptr;
    REQUIRE(emu::stream_create(&stream) == 0);
    REQUIRE(emu::capture_begin(stream) == 0);
    CHECK(cuda::multi_lookup(a, LookupOptions{}, stream) == 0);
    REQUIRE(emu::capture_end(stream, &graph) == 0);
    const std::string text = emu::graph_text(graph);
    nodes[with] = static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    CHECK(emu::graph_free(graph) == 0);
    emu::stream_destroy(stream);
  }
  CHECK(nodes[0] == nodes[1]);
  CHECK(nodes[0] == 1);
}

}  // namespace dpi::test::row_cache_test
