// The frozen key index against std::unordered_map. Planted fault: a find that ends at the first bucket,
// whether keys went on or not, loses keys of every table here with more than a few hundred.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <unordered_map>
#include <vector>

#include "store/resident/key_index.hpp"
#include "store/resident/resident_keys.hpp"

namespace dpi::test::key_index_test {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

KeyIndex index_of(const std::vector<int64_t>& keys, size_t block) {
  Result<KeyIndex> made = KeyIndex::create(static_cast<int64_t>(keys.size()));
  REQUIRE(made.ok());
  KeyIndex index = std::move(made).value();
  for (size_t at = 0; at < keys.size(); at += block)
    index.add(static_cast<int64_t>(at), std::span(keys).subspan(at, std::min(block, keys.size() - at)));
  return index;
}

/// n different keys, rising, the odd ones among them: of all 64 bits, of a few low ones, or strided.
std::vector<int64_t> keys_of(std::mt19937_64& random, size_t n, int kind) {
  std::unordered_map<int64_t, bool> seen;
  for (const int64_t odd : {kLeast, kMost, int64_t{0}, int64_t{-1}, int64_t{1}})
    if (seen.size() < n) seen[odd] = true;
  for (int64_t k = 2; seen.size() < n; ++k) {
    const auto any = static_cast<int64_t>(random());
    seen[kind == 0 ? any : kind == 1 ? k : k << 32] = true;
  }
  std::vector<int64_t> keys;
  for (const auto& [key, _] : seen) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace

TEST_CASE("every key finds its row, and no other key finds one") {
  std::mt19937_64 random(7);
  for (const size_t n : {1u, 2u, 5u, 6u, 64u, 1000u, 50'000u}) {
    for (int kind = 0; kind < 3; ++kind) {
      const std::vector<int64_t> keys = keys_of(random, n, kind);
      const KeyIndex index = index_of(keys, 777);
      std::unordered_map<int64_t, int32_t> want;
      for (size_t k = 0; k < n; ++k) want[keys[k]] = static_cast<int32_t>(k);
      size_t wrong = 0;
      for (size_t k = 0; k < n; ++k) wrong += index.find(keys[k]) != static_cast<int32_t>(k);
      for (size_t i = 0; i < 2 * n + 100; ++i) {
        const auto key = i % 3 == 0 ? static_cast<int64_t>(i) - 50 : static_cast<int64_t>(random());
        const auto it = want.find(key);
        wrong += index.find(key) != (it == want.end() ? -1 : it->second);
      }
      CHECK(wrong == 0);
      CHECK(index.find(kLeast) == want.at(kLeast));
    }
  }
}

TEST_CASE("an index of no keys holds none") {
  const KeyIndex index = index_of({}, 1);
  CHECK(index.empty());
  CHECK(index.find(0) == -1);
  CHECK(KeyIndex::bytes_of(0) == 0);
}

TEST_CASE("an index takes 64 bytes for three and three quarters keys") {
  CHECK(KeyIndex::bytes_of(1) == 64);
  CHECK(KeyIndex::bytes_of(15) == 4 * 64);
  CHECK(KeyIndex::bytes_of(16) == 5 * 64);
  CHECK(KeyIndex::bytes_of((int64_t{1} << 31) - 3) == 64 * ((uint64_t{4} * 2147483645 + 14) / 15));
}

TEST_CASE("a group of lookups goes to several key sets") {
  std::mt19937_64 random(3);
  const std::vector<int64_t> a = keys_of(random, 300, 0), b = keys_of(random, 40, 1);
  std::vector<KeyIndex> indexes;
  indexes.push_back(index_of(a, 1000));
  indexes.emplace_back();
  indexes.push_back(index_of(b, 1000));
  const ResidentKeys keys(std::move(indexes));
  std::vector<KeyLookup> lookups;
  for (size_t i = 0; i < 40; ++i) {
    lookups.push_back({a[i], 0, 0, 9});
    lookups.push_back({b[i], 0, 1, 9});  // that set has no keys
    lookups.push_back({b[i], 0, 2, 9});
  }
  keys.find(lookups);
  for (size_t i = 0; i < 40; ++i) {
    CHECK(lookups[3 * i].row == static_cast<int32_t>(i));
    CHECK(lookups[3 * i + 1].row == -1);
    CHECK(lookups[3 * i + 2].row == static_cast<int32_t>(i));
  }
}

}  // namespace dpi::test::key_index_test
