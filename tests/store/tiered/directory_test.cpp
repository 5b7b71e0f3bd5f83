// The directory against a std::unordered_map: random operations and every odd key; and what a full one does.
#include "store/tiered/directory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

namespace dpi::test::directory_test {
namespace {

using namespace dpi::tiered;

struct Free {
  void operator()(void* p) const { std::free(p); }
};

struct Owned {
  explicit Owned(const DirectoryShape& shape)
      : bytes(Directory::bytes(shape)), memory(std::aligned_alloc(64, bytes)) {
    std::memset(memory.get(), 0, bytes);
    directory = Directory(shape, memory.get());
  }
  uint64_t bytes;
  std::unique_ptr<void, Free> memory;
  Directory directory;
};

DirectoryShape shape_of(int32_t shards, int32_t places) {
  return directory_shape(shards, places, 0, 3, 7).value();
}

/// Keys that went wrong elsewhere, the same in three tables.
std::vector<int64_t> odd_keys() {
  std::vector<int64_t> keys = {0,
                               -1,
                               1,
                               std::numeric_limits<int64_t>::min(),
                               std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min() + 1,
                               static_cast<int64_t>(0xFFFFFFFFu),
                               int64_t{1} << 32,
                               -(int64_t{1} << 32)};
  for (int bit = 0; bit < 64; ++bit) keys.push_back(static_cast<int64_t>((uint64_t{1} << bit) - 2));
  for (int64_t i = 2; i < 300; ++i) {
    keys.push_back(i << 20);
    keys.push_back(-i * 1024);
    keys.push_back(i << 48 | 3);
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

TEST_CASE("every int64 is a key, and a key of one table is none of another") {
  const auto keys = odd_keys();
  Owned o(shape_of(1, 4096));
  auto& d = o.directory;
  int32_t next = 0;
  for (uint32_t code = 1; code <= 3; ++code) {
    const TableCode t = d.table(code);
    for (const int64_t k : keys) {
      REQUIRE(d.find(t, k) == Directory::kMissing);
      REQUIRE(d.insert(t, d.hash(t, k), k, next++));
    }
  }
  next = 0;
  for (uint32_t code = 1; code <= 3; ++code) {
    for (const int64_t k : keys) CHECK(d.find(d.table(code), k) == next++);
  }
  for (const int64_t k : keys) CHECK(d.erase(d.table(2), d.hash(d.table(2), k), k) >= 0);
  next = 0;
  for (uint32_t code = 1; code <= 3; ++code) {
    for (const int64_t k : keys) {
      CHECK(d.find(d.table(code), k) == (code == 2 ? Directory::kMissing : next));
      ++next;
    }
  }
}

TEST_CASE("random operations against std::unordered_map") {
  for (const int32_t shards : {1, 8}) {
    const int32_t per_shard = 4000 / shards;
    Owned o(shape_of(shards, per_shard));
    auto& d = o.directory;
    std::vector<std::vector<int32_t>> free(static_cast<size_t>(shards));
    for (int32_t p = 0; p < shards * per_shard; ++p) free[static_cast<size_t>(p / per_shard)].push_back(p);
    std::unordered_map<int64_t, int32_t> oracle;
    const TableCode t = d.table(2);
    std::mt19937_64 rng(5);
    for (int i = 0; i < 300000; ++i) {
      const auto key = static_cast<int64_t>(rng() % 6000) * 4096 - 3000 * 4096;
      const uint64_t h = d.hash(t, key);
      auto& spare = free[static_cast<size_t>(d.shard_of(h))];
      const auto it = oracle.find(key);
      REQUIRE(d.find(t, key) == (it == oracle.end() ? Directory::kMissing : it->second));
      if (it == oracle.end() && !spare.empty()) {
        REQUIRE(d.insert(t, h, key, spare.back()));
        oracle[key] = spare.back();
        spare.pop_back();
      } else if (it != oracle.end() && rng() % 4 == 0 && !spare.empty()) {
        REQUIRE(d.replace(t, h, key, spare.back()) == it->second);
        std::swap(spare.back(), it->second);
      } else if (it != oracle.end() && rng() % 2 == 0) {
        REQUIRE(d.erase(t, h, key) == it->second);
        spare.push_back(it->second);
        oracle.erase(it);
      }
    }
    CHECK(oracle.size() > 2000);
    for (const auto& [key, place] : oracle) CHECK(d.find(t, key) == place);
  }
}

TEST_CASE("at its full load every place is linked, and all entries can be visited") {
  Owned o(shape_of(1, 100000));
  auto& d = o.directory;
  const TableCode t = d.table(1);
  for (int32_t i = 0; i < 100000; ++i) REQUIRE(d.insert(t, d.hash(t, i), i, i));
  std::map<int64_t, int32_t> seen;
  for (int64_t b = 0; b < d.shape().buckets_per_shard; ++b)
    d.entries(0, b, [&](uint32_t code, int64_t key, int32_t place) {
      CHECK(code == 1);
      seen[key] = place;
    });
  CHECK(seen.size() > 99980);  // the rest lies in the stash
  for (const auto& [key, place] : seen) CHECK(key == place);
  for (int32_t i = 0; i < 100000; ++i) CHECK(d.find(t, i) == i);
}

TEST_CASE("keys that all collide fill two buckets and the stash, then insert says so") {
  DirectoryShape s = shape_of(1, 1000);
  Owned o(s);
  auto& d = o.directory;
  const TableCode t = d.table(1);
  std::vector<int64_t> keys;
  const int64_t bucket = d.first_of(d.hash(t, 0)), second = d.second_of(d.hash(t, 0));
  for (int64_t k = 0; keys.size() < 30; ++k) {
    if (d.first_of(d.hash(t, k)) == bucket && d.second_of(d.hash(t, k)) == second) keys.push_back(k);
  }
  size_t linked = 0;
  while (linked < keys.size() &&
         d.insert(t, d.hash(t, keys[linked]), keys[linked], static_cast<int32_t>(linked)))
    ++linked;
  CHECK(linked == 20);  // 2 buckets of 5, a stash of 8 in 2 buckets of 5
  for (size_t i = 0; i < keys.size(); ++i)
    CHECK(d.find(t, keys[i]) == (i < linked ? static_cast<int32_t>(i) : Directory::kMissing));
  int32_t victim = -1;
  int64_t victim_key = 0;
  d.near(d.hash(t, keys[20]),
         [&](uint32_t, int64_t key, int32_t place) { victim = place, victim_key = key; });
  REQUIRE(victim >= 0);
  CHECK(d.erase(t, d.hash(t, victim_key), victim_key) == victim);
  CHECK(d.insert(t, d.hash(t, keys[20]), keys[20], victim));
  CHECK(d.find(t, keys[20]) == victim);
  CHECK(d.find(t, victim_key) == Directory::kMissing);
}

TEST_CASE("absent keys are remembered as such") {
  Owned o(shape_of(1, 8));
  auto& d = o.directory;
  const TableCode t = d.table(3);
  CHECK(d.insert(t, d.hash(t, -5), -5, Directory::kAbsent));
  CHECK(d.find(t, -5) == Directory::kAbsent);
  CHECK(d.replace(t, d.hash(t, -5), -5, 7) == Directory::kAbsent);
  CHECK(d.find(t, -5) == 7);
  CHECK(d.erase(t, d.hash(t, -6), -6) == Directory::kMissing);
}

TEST_CASE("tables and places must fit one word") {
  CHECK(directory_shape(1, (1 << 22), 0, 511, 0).has_value());
  CHECK_FALSE(directory_shape(1, (1 << 22), 0, 512, 0).has_value());
  CHECK_FALSE(directory_shape(1, 1 << 30, 0, 1, 0).has_value());
  const auto s = directory_shape(4, 75000, 0, 1, 0).value();
  CHECK(s.buckets_per_shard == 20000);  // 5 cells each: a load of 0.75
}

}  // namespace
}  // namespace dpi::test::directory_test
