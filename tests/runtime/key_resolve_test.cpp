// What resolving makes of keys: rows of those that are there, the default row of absent ones, padding,
// missing values, in every form of a batch. Keys are found by a map here, not by the engine's index. Planted
// faults: an absent key that gets the padding row, counts that are lost when a group is full, a default_id
// that is taken for a row number.
#include <doctest/doctest.h>

#include <limits>
#include <map>
#include <vector>

#include "runtime/packed.hpp"
#include "store/resident/key_places.hpp"

namespace dpi::test::key_resolve_test {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int32_t kAbsent = 4, kPad = 5, kNoPad = 6;  // of the set below, with two different pad_ids

struct MapPlaces final : KeyPlaces {
  std::map<int64_t, int32_t> rows = {{kLeast, 0}, {-3, 1}, {0, 2}, {70, 3}};
  mutable size_t largest = 0;
  void find(std::span<KeyLookup> lookups) const noexcept override {
    largest = std::max(largest, lookups.size());
    for (KeyLookup& l : lookups) {
      const auto it = rows.find(l.key);
      l.row = it == rows.end() ? -1 : it->second;
    }
  }
};

FeatureSpec keyed(const char* name, FeatureKind kind) {
  FeatureSpec f;
  f.name = name;
  f.kind = kind;
  f.keys = "set";
  f.has_pad_id = false;
  f.key_set = 0;
  f.absent_row = kAbsent;
  f.pad_row = kNoPad;
  f.missing = kind == FeatureKind::kSequence ? Missing::kPad : Missing::kError;
  return f;
}

void pad_with(FeatureSpec* f, int64_t key) {
  f->has_pad_id = true;
  f->pad_id = key;
  f->pad_row = kPad;
}

Batch batch_of(int64_t rows, const std::vector<int64_t>& ids, const std::vector<int64_t>* offsets = nullptr) {
  Batch b;
  b.item.rows = rows;
  b.item.ids = ids.data();
  b.item.nnz = static_cast<int64_t>(ids.size());
  b.item.offsets = offsets != nullptr ? offsets->data() : nullptr;
  return b;
}

}  // namespace

TEST_CASE("keys beside row numbers, one id per bag, in both layouts") {
  FeatureSpec number;
  number.name = "number";
  number.kind = FeatureKind::kCategorical;
  number.vocab_size = 9;
  FeatureSpec padded = keyed("padded", FeatureKind::kCategorical);
  pad_with(&padded, 8);
  FeatureSpec marked = keyed("marked", FeatureKind::kCategorical);
  marked.has_missing_id = true;
  marked.missing_id = -1;
  marked.missing = Missing::kDefault;
  marked.default_id = 70;
  const std::vector<int64_t> by_row = {-3, 7, kLeast, /**/ 8, 8, -1, /**/ 71, 0, 99};
  const std::vector<int64_t> by_slot = {-3, 8, 71, /**/ 7, 8, 0, /**/ kLeast, -1, 99};
  for (const bool slot_major : {false, true}) {
    const MapPlaces places;
    Packed p({padded, number, marked}, 256, 4096, &places);
    Batch b = batch_of(3, slot_major ? by_slot : by_row);
    b.slot_major = slot_major;
    REQUIRE(p.run(b).ok());
    CHECK(p.ids(0) == std::vector<int32_t>{1, kPad, kAbsent});
    CHECK(p.ids(1) == std::vector<int32_t>{7, 8, 0});
    CHECK(p.ids(2) == std::vector<int32_t>{0, 3, kAbsent});
    CHECK(p.counters[0].absent == 1);
    CHECK(p.counters[0].missing == 0);
    CHECK(p.counters[1].absent == 0);
    CHECK(p.counters[2].absent == 1);
    CHECK(p.counters[2].missing == 1);
    CHECK(p.counters[2].out_of_range == 0);
  }
}

TEST_CASE("bags of keys: padding, absent and missing keys, cuts, empty bags") {
  FeatureSpec seen = keyed("seen", FeatureKind::kSequence);
  pad_with(&seen, 0);
  seen.max_len = 3;
  seen.keep_last = true;
  FeatureSpec free = keyed("free", FeatureKind::kSequence);
  free.missing = Missing::kDefault;
  free.default_id = 12345;  // that is absent
  free.has_missing_id = true;
  free.missing_id = 70;
  const MapPlaces places;
  Packed p({seen, free}, 256, 4096, &places);
  const std::vector<int64_t> ids = {70, 0, 1, -3, /**/ 0, /**/ 70, 2, -3};
  const std::vector<int64_t> offsets = {0, 4, 5, 5, 6, 8, 8};  // (70 0 1 -3 | 0) (- | 70) (2 -3 | -)
  REQUIRE(p.run(batch_of(3, ids, &offsets)).ok());
  CHECK(p.ids(0) == std::vector<int32_t>{kPad, kAbsent, 1, -1, -1, kAbsent, 1, -1});
  CHECK(p.ids(1) == std::vector<int32_t>{2, -1, kAbsent, -1, kAbsent, -1});
  CHECK(p.counters[0].cut == 1);
  CHECK(p.counters[0].absent == 2);
  CHECK(p.counters[0].missing == 0);
  CHECK(p.counters[1].absent == 0);   // default_id is a rule, not an id of the request
  CHECK(p.counters[1].missing == 3);  // one left its bag; two bags are empty
}

TEST_CASE("a default_id that is the pad_id is padding, one that is there has its row") {
  for (const auto& [id, row] : std::map<int64_t, int32_t>{{8, kPad}, {-3, 1}, {5, kAbsent}}) {
    FeatureSpec f = keyed("f", FeatureKind::kCategorical);
    pad_with(&f, 8);
    f.missing = Missing::kDefault;
    f.default_id = id;
    const MapPlaces places;
    Packed p({f}, 256, 4096, &places);
    const std::vector<int64_t> ids, offsets = {0, 0};
    REQUIRE(p.run(batch_of(1, ids, &offsets)).ok());
    CHECK(p.ids(0) == std::vector<int32_t>{row});
  }
}

TEST_CASE("more keys than a group holds, with what a refused row was counted for") {
  FeatureSpec f = keyed("f", FeatureKind::kCategorical);
  f.has_missing_id = true;
  f.missing_id = 1;
  const MapPlaces places;
  Packed p({f}, 256, 4096, &places);
  std::vector<int64_t> ids;
  for (int64_t r = 0; r < 200; ++r) ids.push_back(r % 4 == 0 ? 70 : 1000 + r);
  REQUIRE(p.run(batch_of(200, ids)).ok());
  CHECK(p.counters[0].absent == 150);
  CHECK(places.largest > 1);
  const std::vector<int32_t> rows = p.ids(0);
  for (size_t r = 0; r < 200; ++r) CHECK(rows[r] == (r % 4 == 0 ? 3 : kAbsent));
  ids[199] = 1;
  const Status refused = p.run(batch_of(200, ids));
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK(refused.message().find("row 199, feature 'f': a missing value") != std::string::npos);
  CHECK(p.counters[0].absent == 299);
}

}  // namespace dpi::test::key_resolve_test
