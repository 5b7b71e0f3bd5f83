// Which hits are sampled: each key of a call as often as any other, whatever order and length calls have, and
// one in 16 of all. Same numbers on every run. In brackets: a count that goes on from call to call, where
// calls of 64 keys have the same four of them sampled for ever.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "store/tiered/cache_fixture.hpp"

namespace dpi::test::sampling_test {
namespace {

constexpr int kCalls = 4096;

/// Samples of each key after so many calls, which ask for these lists in turn.
std::map<int64_t, int> samples_of(const std::vector<std::vector<int64_t>>& lists) {
  Cache c(small_options());
  const HostCache::Reader r = c.reader();
  std::map<int64_t, int> seen;
  std::map<int32_t, int64_t> key_of;
  for (const auto& keys : lists) {
    std::vector<int32_t> places;
    REQUIRE(c.get(*r, 1, keys, &places).ok());
    c.cache->release(*r);
    for (size_t i = 0; i < keys.size(); ++i) key_of[places[i]] = keys[i], seen[keys[i]] = 0;
  }
  r->samples.drain([](int32_t, int32_t) {});
  for (int call = 0; call < kCalls; ++call) {
    std::vector<int32_t> places;
    REQUIRE(c.get(*r, 1, lists[static_cast<size_t>(call) % lists.size()], &places).ok());
    c.cache->release(*r);
    r->samples.drain([&](int32_t, int32_t place) { ++seen[key_of.at(place)]; });
  }
  return seen;
}

/// The fewest and the most samples of a key, and how many all have.
struct Spread {
  int least = INT32_MAX, most = 0;
  int64_t all = 0;
};
Spread spread(const std::map<int64_t, int>& seen) {
  Spread s;
  for (const auto& [key, n] : seen) s.least = std::min(s.least, n), s.most = std::max(s.most, n), s.all += n;
  return s;
}

}  // namespace

TEST_CASE("sampling: calls that ask for the same keys in the same order have each of them sampled") {
  for (const int64_t n : {1, 16, 26, 33, 64, 160}) {
    CAPTURE(n);
    const Spread s = spread(samples_of({iota(100, n)}));
    CHECK(s.least > 190);  // of 256, standard deviation 15.5 [0 for 64 keys]
    CHECK(s.most < 325);
    CHECK(s.all > 0.8 * n * kCalls / kSampledOneIn);
    CHECK(s.all < 1.2 * n * kCalls / kSampledOneIn);
  }
}

TEST_CASE("sampling: calls that come in turns, as a bench has them, have each of their keys sampled") {
  for (const int64_t turns : {2, 8, 16}) {
    CAPTURE(turns);
    std::vector<std::vector<int64_t>> lists;
    for (int64_t i = 0; i < turns; ++i) lists.push_back(iota(100 + 33 * i, 33));  // [16: 0]
    const double each = static_cast<double>(kCalls) / static_cast<double>(turns * kSampledOneIn);
    const Spread s = spread(samples_of(lists));
    CHECK(s.least > 0);
    CHECK(s.least > each - 5 * std::sqrt(each));
    CHECK(s.most < each + 5 * std::sqrt(each));
  }
}

}  // namespace dpi::test::sampling_test
