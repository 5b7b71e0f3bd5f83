// The packing of a request: rules of ids and missing values, maps, shared rows, ranges. Works on plain
// structs, no model.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "runtime/packed.hpp"

namespace dpi::test::resolve_test {

TEST_CASE("every id rule") {
  FeatureSpec oov = categorical("oov", 5), fallback = categorical("fallback", 5),
              marked = categorical("marked", 5);
  oov.out_of_range = OutOfRange::kOov;
  oov.oov_id = 4;
  oov.missing = Missing::kPad;
  fallback.out_of_range = OutOfRange::kDefault;
  fallback.default_id = 2;
  fallback.missing = Missing::kDefault;
  marked.has_missing_id = true;
  marked.missing_id = -7;
  marked.missing = Missing::kPad;
  marked.pad_id = 1;
  Packed p({oov, fallback, marked});
  const std::vector<int64_t> ids = {0, 0,      0, /**/ 5, 5, -7, /**/ -1, std::numeric_limits<int64_t>::max(),
                                    4, /**/ 4, 3, 2};
  Batch b;
  b.item.rows = 4;
  b.item.ids = ids.data();
  b.item.nnz = 12;
  REQUIRE(p.run(b).ok());
  CHECK(p.ids(0) == std::vector<int32_t>{0, 4, 4, 4});
  CHECK(p.ids(1) == std::vector<int32_t>{0, 2, 2, 3});
  CHECK(p.ids(2) == std::vector<int32_t>{0, 1, 4, 2});
  CHECK(p.counters[0].out_of_range == 2);
  CHECK(p.counters[1].out_of_range == 2);
  CHECK(p.counters[2].missing == 1);
  CHECK(p.counters[2].out_of_range == 0);
}

TEST_CASE("a missing categorical in CSR, with offsets in both maps") {
  FeatureSpec a = categorical("a", 9), z = categorical("z", 9);
  a.missing = Missing::kPad;
  z.missing = Missing::kDefault;
  z.default_id = 8;
  const std::vector<int64_t> row_major = {1, 2, 3}, row_offsets = {0, 1, 2, 2, 3};    // (1,2) (-,3)
  const std::vector<int64_t> slot_major = {1, 2, 3}, slot_offsets = {0, 1, 1, 2, 3};  // a: 1,-  z: 2,3
  for (const bool by_slot : {false, true}) {
    Packed p({a, z});
    Batch b;
    b.slot_major = by_slot;
    b.item.rows = 2;
    b.item.ids = (by_slot ? slot_major : row_major).data();
    b.item.offsets = (by_slot ? slot_offsets : row_offsets).data();
    b.item.nnz = 3;
    REQUIRE(p.run(b).ok());
    CHECK(p.ids(0) == std::vector<int32_t>{1, 0});
    CHECK(p.ids(1) == std::vector<int32_t>{2, 3});
    CHECK(p.counters[0].missing == 1);
  }
}

TEST_CASE("rows of one id a bag are taken at once, others by their features' rules") {
  std::vector<FeatureSpec> features;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"})
    features.push_back(categorical(name, 50));
  for (FeatureSpec& f : features) f.missing = Missing::kPad;
  features.push_back(sequence("bag", 50, 4));
  std::vector<int64_t> ids, offsets = {0};
  for (int64_t row = 0; row < 3; ++row) {
    for (int64_t k = 0; k < 10; ++k) {
      ids.push_back(row * 10 + k);
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
    for (int64_t k = 0; k < row; ++k) ids.push_back(40 + k);
    offsets.push_back(static_cast<int64_t>(ids.size()));
  }
  std::vector<float> weights(ids.size(), 1.0f);
  Packed p(features);
  Batch b;
  b.item.rows = 3;
  b.item.ids = ids.data();
  b.item.offsets = offsets.data();
  b.item.weights = weights.data();
  b.item.nnz = static_cast<int64_t>(ids.size());
  REQUIRE(p.run(b).ok());
  for (int32_t k = 0; k < 10; ++k) CHECK(p.ids(k) == std::vector<int32_t>{k, 10 + k, 20 + k});

  weights[13] = 2.0f;  // row 1, feature d
  const Status weighted = p.run(b);
  CHECK(weighted.code() == Code::kInvalidArgument);
  CHECK(weighted.row() == 1);
  CHECK(weighted.feature() == 3);
  weights[13] = 1.0f;

  --offsets[11 + 5];  // row 1: feature e has no id, f has two
  const Status two = p.run(b);
  CHECK(two.code() == Code::kInvalidArgument);
  CHECK(two.row() == 1);
  CHECK(two.feature() == 5);
  CHECK(p.counters[4].missing == 1);
}

TEST_CASE("bags are cut at either end, keep duplicates, and may be empty") {
  FeatureSpec first = sequence("first", 10, 3), last = sequence("last", 10, 2);
  last.keep_last = true;
  last.missing = Missing::kDefault;
  last.default_id = 9;
  Packed p({first, last});
  const std::vector<int64_t> ids = {1, 1, 2, 3, 4, 5, 6, 7}, offsets = {0, 4, 8, 8, 8};
  Batch b;
  b.item.rows = 2;
  b.item.ids = ids.data();
  b.item.offsets = offsets.data();
  b.item.nnz = 8;
  REQUIRE(p.run(b).ok());
  CHECK(p.ids(0) == std::vector<int32_t>{1, 1, 2, -1, -1});
  CHECK(p.ids(1) == std::vector<int32_t>{6, 7, -1, 9, -1});
  CHECK(p.counters[0].cut == 1);
  CHECK(p.counters[1].cut == 1);
  CHECK(p.counters[1].missing == 1);
}

TEST_CASE("ids of a bag outside their vocabulary are counted") {
  FeatureSpec f = sequence("s", 10, 4);
  f.out_of_range = OutOfRange::kOov;
  f.oov_id = 9;
  Packed p({f});
  const std::vector<int64_t> ids = {1, 10, -1, 9}, offsets = {0, 4};
  Batch b;
  b.item.rows = 1;
  b.item.ids = ids.data();
  b.item.offsets = offsets.data();
  b.item.nnz = 4;
  REQUIRE(p.run(b).ok());
  CHECK(p.ids(0) == std::vector<int32_t>{1, 9, 9, 9, -1});
  CHECK(p.counters[0].out_of_range == 2);
}

TEST_CASE("weights belong to weighted features only") {
  FeatureSpec w = sequence("w", 10, 0), plain = categorical("plain", 10);
  w.weighted = true;
  const std::vector<int64_t> ids = {3, 4, 5}, offsets = {0, 2, 3};
  std::vector<float> weights = {0.5f, -2.0f, 1.0f};
  Batch b;
  b.item.rows = 1;
  b.item.ids = ids.data();
  b.item.offsets = offsets.data();
  b.item.weights = weights.data();
  b.item.nnz = 3;
  Packed p({w, plain});
  REQUIRE(p.run(b).ok());
  const kernels::Bags bags = p.operand(0).bags;
  REQUIRE(bags.weights != nullptr);
  CHECK(bags.weights[0] == 0.5f);
  CHECK(bags.weights[1] == -2.0f);
  weights[2] = 0.5f;
  CHECK(p.run(b).code() == Code::kInvalidArgument);
  weights[2] = 1.0f;
  weights[0] = std::nanf("");
  const Status s = p.run(b);
  CHECK(s.code() == Code::kInvalidArgument);
  CHECK(s.row() == 0);
  CHECK(s.feature() == 0);
}

TEST_CASE("floats: NaN takes the default, columns follow the packed order") {
  FeatureSpec vector = numeric("vector");
  vector.kind = FeatureKind::kDense;
  vector.dim = 2;
  vector.missing = Missing::kPad;
  Packed p({numeric("a"), vector, numeric("b")});
  const float nan = std::nanf("");
  const std::vector<float> dense = {1, 2, 3, 4, nan, nan, 5, nan};
  Batch b;
  b.item.rows = 2;
  b.item.dense = dense.data();
  REQUIRE(p.run(b).ok());
  const auto at = [&](int32_t f, int64_t r, int64_t k) { return p.operand(f).tensor.row(r)[k]; };
  CHECK(at(0, 0, 0) == 1.0f);
  CHECK(at(1, 0, 1) == 3.0f);
  CHECK(at(2, 0, 0) == 4.0f);
  CHECK(at(0, 1, 0) == 0.25f);
  CHECK(at(1, 1, 0) == 0.0f);
  CHECK(at(1, 1, 1) == 5.0f);
  CHECK(at(2, 1, 0) == 0.25f);
}

TEST_CASE("floats of two parts in one row are found between each other") {
  Packed p({numeric("a"), numeric("u", RowSpace::kShared), numeric("b")});
  const std::vector<float> dense = {1, 2, 3, 4, 5, 6};
  Batch b;
  b.item.rows = 2;
  b.item.dense = dense.data();
  REQUIRE(p.run(b).ok());
  for (int32_t f = 0; f < 3; ++f) {
    for (int64_t r = 0; r < 2; ++r) CHECK(p.operand(f).tensor.row(r)[0] == static_cast<float>(3 * r + f + 1));
  }
}

TEST_CASE("columns of a part lie side by side, vectors with all of theirs") {
  const auto vector = [](const char* name, RowSpace space) {
    FeatureSpec f = numeric(name, space);
    f.kind = FeatureKind::kDense;
    f.dim = 2;
    return f;
  };
  Packed p({vector("v", RowSpace::kShared), numeric("i"), vector("w", RowSpace::kItem),
            numeric("u", RowSpace::kShared), numeric("j")});
  const std::vector<float> item = {1, 2, 3, 4}, shared = {5, 6, 7};
  const std::vector<int64_t> offsets = {0, 1};
  Batch b;
  b.item.rows = b.shared.rows = 1;
  b.item.dense = item.data();
  b.shared.dense = shared.data();
  b.shared_offsets = offsets.data();
  REQUIRE(p.run(b).ok());
  const float want[] = {5, 1, 2, 7, 4};  // each feature's first
  for (int32_t f = 0; f < 5; ++f) CHECK(p.operand(f).tensor.row(0)[0] == want[f]);
  CHECK(p.operand(0).tensor.row(0)[1] == 6);
  CHECK(p.operand(2).tensor.row(0)[1] == 3);
}

TEST_CASE("shared rows: maps, users without candidates, and ranges that cut a user") {
  Packed p({categorical("user", 100, RowSpace::kShared), categorical("item", 100)}, 4);
  const std::vector<int64_t> users = {10, 11, 12, 13}, items = {0, 1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> offsets = {0, 3, 3, 6, 7};  // user 1 has no candidate
  Batch b;
  b.item.rows = 7;
  b.item.ids = items.data();
  b.item.nnz = 7;
  b.shared.rows = 4;
  b.shared.ids = users.data();
  b.shared.nnz = 4;
  b.shared_offsets = offsets.data();
  REQUIRE(check_batch(p.schema, b).ok());
  std::vector<int32_t> seen;  // user id of each item row, over all ranges
  for (int64_t begin = 0; begin < 7;) {
    auto range = next_range(p.schema, p.map, b, begin, b.item.rows);
    REQUIRE(range.ok());
    REQUIRE(range->rows() >= 1);
    REQUIRE(range->rows() <= 4);
    REQUIRE(resolve_rows(p.schema, p.map, b, *range, p.block.data(), p.counters.data(), &p.rows).ok());
    REQUIRE(p.rows.has_map);
    const auto* map = reinterpret_cast<const int32_t*>(p.block.data() + p.map.row_map);
    const std::vector<int32_t> user = p.ids(0), item = p.ids(1);
    for (int64_t r = 0; r < range->rows(); ++r) {
      REQUIRE(map[r] < p.rows.rows.shared);
      seen.push_back(user[static_cast<size_t>(map[r])]);
      CHECK(item[static_cast<size_t>(r)] == begin + r);
    }
    begin = range->end;
  }
  CHECK(seen == std::vector<int32_t>{10, 10, 10, 12, 12, 12, 13});
}

/// Resolves all of a batch of users with so many candidates each; user `bad` has an id outside its
/// vocabulary.
Status resolve_users(int64_t max_rows, const std::vector<int64_t>& candidates, size_t bad) {
  Packed p({categorical("user", 100, RowSpace::kShared), categorical("item", 100)}, max_rows);
  std::vector<int64_t> users(candidates.size(), 1), offsets{0};
  users[bad] = 100;
  for (const int64_t n : candidates) offsets.push_back(offsets.back() + n);
  const std::vector<int64_t> items(static_cast<size_t>(offsets.back()), 1);
  Batch b;
  b.item.rows = b.item.nnz = offsets.back();
  b.item.ids = items.data();
  b.shared.rows = b.shared.nnz = static_cast<int64_t>(users.size());
  b.shared.ids = users.data();
  b.shared_offsets = offsets.data();
  DPI_RETURN_IF_ERROR(check_batch(p.schema, b));
  for (int64_t begin = 0; begin < b.item.rows;) {
    DPI_ASSIGN_OR_RETURN(const RowRange range, next_range(p.schema, p.map, b, begin, b.item.rows));
    REQUIRE(range.rows() >= 1);
    DPI_RETURN_IF_ERROR(resolve_rows(p.schema, p.map, b, range, p.block.data(), p.counters.data(), &p.rows));
    begin = range.end;
  }
  return {};
}

TEST_CASE("a user without candidates is not looked at, wherever he stands and whatever max_rows is") {
  const std::vector<std::vector<int64_t>> batches = {
      {0},          {0, 0},         {0, 1}, {1, 0}, {1, 0, 1}, {1, 0, 0, 1}, {2, 0, 3, 0, 0, 1, 1, 0},
      {1, 1, 0, 0}, {0, 4, 4, 0, 1}};
  for (int64_t max_rows = 1; max_rows <= 12; ++max_rows) {
    for (const auto& candidates : batches) {
      for (size_t bad = 0; bad < candidates.size(); ++bad) {
        const Status s = resolve_users(max_rows, candidates, bad);
        CHECK(s.ok() == (candidates[bad] == 0));
        if (!s.ok()) CHECK(s.row() == static_cast<int64_t>(bad));
      }
    }
  }
}

TEST_CASE("ranges respect what a sequence can hold; one row that cannot is an error that names it") {
  Packed p({sequence("s", 100, 0)}, 64, 10);
  const std::vector<int64_t> ids(30, 1), offsets = {0, 4, 8, 12, 23, 30};
  Batch b;
  b.item.rows = 5;
  b.item.ids = ids.data();
  b.item.offsets = offsets.data();
  b.item.nnz = 30;
  REQUIRE(check_batch(p.schema, b).ok());
  const auto range = next_range(p.schema, p.map, b, 0, b.item.rows);
  REQUIRE(range.ok());
  CHECK(range->end == 2);
  const auto wide = next_range(p.schema, p.map, b, 3, b.item.rows);
  REQUIRE(wide.ok());
  CHECK(wide->end == 4);
  const Status s = resolve_rows(p.schema, p.map, b, *wide, p.block.data(), p.counters.data(), &p.rows);
  CHECK(s.code() == Code::kInvalidArgument);
  CHECK(s.row() == 3);
}

TEST_CASE("ranges of a slot-major batch are cut by the bags of their own rows") {
  Packed p({sequence("s", 100, 0), sequence("t", 100, 0)}, 64, 4);
  const std::vector<int64_t> ids(10, 1), offsets = {0, 3, 6, 7, 8, 9, 10};  // s: 3 3 1 ids, t: 1 each
  Batch b;
  b.slot_major = true;
  b.item.rows = 3;
  b.item.ids = ids.data();
  b.item.offsets = offsets.data();
  b.item.nnz = 10;
  REQUIRE(check_batch(p.schema, b).ok());
  const auto range = next_range(p.schema, p.map, b, 0, b.item.rows);
  REQUIRE(range.ok());
  CHECK(range->end == 1);
  CHECK(resolve_rows(p.schema, p.map, b, *range, p.block.data(), p.counters.data(), &p.rows).ok());
}

TEST_CASE("an empty bag's id finds no room in a full buffer") {
  FeatureSpec f = sequence("s", 100, 0);
  f.missing = Missing::kDefault;
  Packed p({f}, 64, 1);
  const std::vector<int64_t> ids = {1}, offsets = {0, 1, 1};
  Batch b;
  b.item.rows = 2;
  b.item.ids = ids.data();
  b.item.offsets = offsets.data();
  b.item.nnz = 1;
  RowRange whole;  // next_range would end after the first row
  whole.end = 2;
  const Status s = resolve_rows(p.schema, p.map, b, whole, p.block.data(), p.counters.data(), &p.rows);
  CHECK(s.code() == Code::kInvalidArgument);
  CHECK(s.row() == 1);
}

TEST_CASE("offsets that decrease at their end") {
  Packed p({sequence("s", 100, 0)});
  const std::vector<int64_t> ids(3, 1), offsets = {0, 3, 2};
  Batch b;
  b.item.rows = 2;
  b.item.ids = ids.data();
  b.item.offsets = offsets.data();
  b.item.nnz = 2;
  const Status s = check_batch(p.schema, b);
  CHECK(s.code() == Code::kInvalidArgument);
  CHECK(s.message().find("[2] is") != std::string::npos);
}

TEST_CASE("shared offsets that lie") {
  Packed p({categorical("user", 100, RowSpace::kShared), categorical("item", 100)});
  const std::vector<int64_t> users = {10, 11}, items = {0, 1, 2};
  Batch b;
  b.item.rows = 3;
  b.item.ids = items.data();
  b.item.nnz = 3;
  b.shared.rows = 2;
  b.shared.ids = users.data();
  b.shared.nnz = 2;
  for (const std::vector<int64_t>& bad : {std::vector<int64_t>{1, 2, 3}, {0, 2, 2}, {0, 4, 3}, {0, -1, 3}}) {
    b.shared_offsets = bad.data();
    const Status s = check_batch(p.schema, b);
    CHECK(s.code() == Code::kInvalidArgument);
    CHECK(s.message().find("shared_offsets") != std::string::npos);
  }
}

}  // namespace dpi::test::resolve_test
