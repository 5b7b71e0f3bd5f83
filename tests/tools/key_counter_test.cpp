// Counting keys: exact as long as they fit; in less memory no count is too high, none is lower than it says,
// and keys that occur often are never lost.
#include "sdk/tools/dpi/commands/key_counter.hpp"

#include <doctest/doctest.h>

#include <map>
#include <random>

namespace dpi::test::key_counter_test {

using dpi::HotKey;
using dpi::tool::KeyCounter;

namespace {

using Counts = std::map<int64_t, uint64_t>;

/// Keys of which few are frequent, negative ones too.
Counts add_keys(KeyCounter* counter, int64_t n) {
  std::mt19937_64 rng(4);
  Counts counts;
  for (int64_t i = 0; i < n; ++i) {
    const auto range = static_cast<int64_t>(uint64_t{1} << (rng() % 18));
    const int64_t key = static_cast<int64_t>(rng() % static_cast<uint64_t>(range)) - 3;
    counter->add(key);
    ++counts[key];
  }
  return counts;
}

void check_order(const std::vector<HotKey>& keys) {
  for (size_t i = 1; i < keys.size(); ++i) REQUIRE(dpi::hotter(keys[i - 1], keys[i]));
}

}  // namespace

TEST_CASE("counts are exact as long as keys fit") {
  KeyCounter counter(uint64_t{64} << 20);
  const Counts want = add_keys(&counter, 300000);
  CHECK(counter.total() == 300000);
  CHECK(counter.low_by() == 0);
  CHECK(counter.keys() == want.size());
  const std::vector<HotKey> got = counter.take();
  check_order(got);
  CHECK(got.size() == want.size());
  for (const HotKey& k : got) REQUIRE(want.at(k.key) == k.count);
}

TEST_CASE("in less memory counts are low by no more than is said, and what is frequent is there") {
  constexpr uint64_t kBytes = 100000;  // 4096 cells, of which 3072 are used
  KeyCounter counter(kBytes);
  constexpr int64_t kAdded = 300000;
  const Counts want = add_keys(&counter, kAdded);
  REQUIRE(want.size() > 30000);
  CHECK(counter.low_by() > 0);
  CHECK(counter.low_by() <= 4 * kAdded / 3072);
  CHECK(counter.keys() <= 3072);
  const uint64_t low_by = counter.low_by();
  const std::vector<HotKey> got = counter.take();
  check_order(got);
  Counts found;
  for (const HotKey& k : got) {
    found[k.key] = k.count;
    REQUIRE(k.count <= want.at(k.key));
    REQUIRE(k.count + low_by >= want.at(k.key));
  }
  int frequent = 0;
  for (const auto& [key, count] : want) {
    if (count <= low_by) continue;
    ++frequent;
    REQUIRE(found.count(key) == 1);
  }
  CHECK(frequent > 100);
}

}  // namespace dpi::test::key_counter_test
