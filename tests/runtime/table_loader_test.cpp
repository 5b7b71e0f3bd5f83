// Derived tables: sums over the rows of bundle tables that come block by block, against float64 sums; and
// which tables are narrowed.
#include "runtime/load/table_loader.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/options/options.hpp"
#include "support/bare_bundle.hpp"

namespace dpi::test::table_loader_test {
namespace {

using Term = PlanTable::Term;

/// Tables of noise in memory, handed out `block` rows at a time.
class BlockBundle final : public BareBundle {
 public:
  explicit BlockBundle(int64_t block) : block_(block) { name_ = "blocks"; }

  void add(int64_t rows, int64_t dim, kernels::DType dtype) {
    TableSpec spec;
    spec.name = "t" + std::to_string(manifest_.tables.size());
    spec.rows = rows;
    spec.dim = dim;
    spec.dtype = dtype;
    manifest_.tables.push_back(spec);
    std::vector<float> values;
    std::vector<float> scales;
    std::vector<std::byte> bytes;
    for (int64_t i = 0; i < rows * dim; ++i) {
      if (i % dim == 0) scales.push_back(static_cast<float>(1 + next() % 100) / 64);
      const auto v = static_cast<int8_t>(next() % 255 - 127);
      const float f = static_cast<float>(v) / 16;
      values.push_back(dtype == kernels::DType::kI8 ? static_cast<float>(v) * scales.back() : f);
      const auto* from = dtype == kernels::DType::kI8 ? reinterpret_cast<const std::byte*>(&v)
                                                      : reinterpret_cast<const std::byte*>(&f);
      bytes.insert(bytes.end(), from, from + kernels::dtype_bytes(dtype));
    }
    values_.push_back(std::move(values));
    scales_.push_back(std::move(scales));
    bytes_.push_back(std::move(bytes));
  }
  double at(size_t table, int64_t row, int64_t column) const {
    return values_[table][static_cast<size_t>(row * manifest_.tables[table].dim + column)];
  }

  Status read_table(size_t index, const BlockSink& fn) override {
    const TableSpec& t = manifest_.tables[index];
    const auto row = static_cast<size_t>(t.dim * kernels::dtype_bytes(t.dtype));
    for (int64_t first = 0; first < t.rows; first += block_) {
      const int64_t n = std::min(block_, t.rows - first);
      DPI_RETURN_IF_ERROR(fn(
          first, n,
          std::span(bytes_[index]).subspan(static_cast<size_t>(first) * row, static_cast<size_t>(n) * row)));
    }
    return {};
  }
  Status read_table_scale(size_t index, std::vector<float>* out) override {
    *out = scales_[index];
    return {};
  }

 private:
  uint32_t next() { return (state_ = state_ * 1664525u + 1013904223u) >> 16; }

  int64_t block_;
  uint32_t state_ = 7;
  std::vector<std::vector<float>> values_, scales_;
  std::vector<std::vector<std::byte>> bytes_;
};

/// Keeps the rows that it is given.
class KeepingStore final : public TableStore {
 public:
  std::vector<std::vector<float>> rows;  // of float32 tables
  bool sealed = false;

  explicit KeepingStore(size_t tables) : rows(tables) {}
  Result<StoreForecast> plan(std::vector<StoreTable>) override { return StoreForecast{}; }
  Status ingest(int32_t table, int64_t first, int64_t n, std::span<const std::byte> bytes) override {
    std::vector<float>& to = rows[static_cast<size_t>(table)];
    const size_t floats = bytes.size() / sizeof(float);
    const size_t at = floats / static_cast<size_t>(n) * static_cast<size_t>(first);
    to.resize(std::max(to.size(), at + floats));
    std::memcpy(to.data() + at, bytes.data(), floats * sizeof(float));
    return {};
  }
  Status ingest_scale(int32_t, std::span<const float>) override { return {}; }
  Status seal() override {
    sealed = true;
    return {};
  }
  Result<std::unique_ptr<StoreReader>> open_reader(const ReaderLimits&) override {
    return Status(Code::kUnsupported, "nothing is read here");
  }
};

PlanTable stored(const TableSpec& spec, int32_t source) {
  PlanTable t;
  t.name = spec.name;
  t.rows = spec.rows;
  t.dim = static_cast<int32_t>(spec.dim);
  t.dtype = spec.dtype;
  t.source = source;
  return t;
}

Term column(int32_t table, int32_t column, float factor) {
  Term t;
  t.table = table;
  t.column = column;
  t.factor = factor;
  return t;
}

Term dot(int32_t table, std::vector<float> weights) {
  Term t;
  t.kind = Term::Kind::kDot;
  t.table = table;
  t.weights = std::move(weights);
  return t;
}

constexpr int64_t kRows = 70001;  // more than are handed to a store at once

TEST_CASE("derived columns are the sums of their terms over every block") {
  for (const kernels::DType dtype : {kernels::DType::kF32, kernels::DType::kI8}) {
    for (const int64_t block : {int64_t{1000}, kRows}) {
      CAPTURE(block);
      BlockBundle bundle(block);
      bundle.add(kRows, 2, dtype);
      bundle.add(kRows + 5, 3, dtype);  // rows beyond the derived table's are left out
      Plan plan;
      plan.tables.push_back(stored(bundle.manifest().tables[1], 1));
      PlanTable derived;
      derived.name = "derived";
      derived.rows = kRows;
      derived.dim = 2;
      derived.columns = {{column(0, 1, 2.5f), dot(1, {1, -2, 0.5f})}, {column(1, 2, -1), column(0, 0, 1)}};
      plan.tables.push_back(derived);
      derived.name = "of one table";  // whose sums are handed on block by block
      derived.columns = {{column(0, 1, 3)}, {column(0, 0, 2), column(0, 1, -1)}};
      plan.tables.push_back(derived);
      KeepingStore store(3);
      const ModelOptions options;
      LoadWatch watch(options, "test");
      LoadedKeys keys;
      REQUIRE(load_plan_tables(bundle, plan, store, &watch, &keys).ok());
      CHECK(keys.places == nullptr);
      CHECK(store.sealed);
      REQUIRE(store.rows[1].size() == 2 * kRows);
      REQUIRE(store.rows[2].size() == 2 * kRows);
      int64_t wrong = 0;
      for (int64_t r = 0; r < kRows; ++r) {
        const double want[2][2] = {{2.5 * bundle.at(0, r, 1) + bundle.at(1, r, 0) - 2 * bundle.at(1, r, 1) +
                                        0.5 * bundle.at(1, r, 2),
                                    bundle.at(0, r, 0) - bundle.at(1, r, 2)},
                                   {3 * bundle.at(0, r, 1), 2 * bundle.at(0, r, 0) - bundle.at(0, r, 1)}};
        for (size_t t = 0; t < 2; ++t) {
          for (size_t c = 0; c < 2; ++c) {
            const float got = store.rows[1 + t][static_cast<size_t>(2 * r) + c];
            if (!(std::fabs(got - want[t][c]) <= 1e-6 * std::max(1.0, std::fabs(want[t][c])))) ++wrong;
          }
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("tables that a mask rule inspects, and those of other types, are not narrowed") {
  Plan plan;
  TableSpec spec;
  spec.rows = spec.dim = 4;
  plan.tables = {stored(spec, 0), stored(spec, 1), stored(spec, 1),
                 stored(spec, 2), PlanTable{},     stored(spec, 3)};
  plan.ops.resize(1);
  plan.ops[0].tables = {0, 1, 2, 3, 4};  // the rows of the last table are there for what rides with them
  plan.tables[2].needs_nonzero = true;   // the same rows as table 1
  plan.tables[3].dtype = kernels::DType::kI8;
  narrow_tables(kernels::DType::kF16, &plan);
  const kernels::DType want[] = {kernels::DType::kF16, kernels::DType::kF32, kernels::DType::kF32,
                                 kernels::DType::kI8,  kernels::DType::kF32, kernels::DType::kF32};
  for (size_t t = 0; t < 6; ++t) CHECK(plan.tables[t].dtype == want[t]);
}

}  // namespace
}  // namespace dpi::test::table_loader_test
