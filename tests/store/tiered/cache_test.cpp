// The host cache against rows that are computed: random calls while rows are evicted, policies, absent keys.
#include <limits>
#include <random>

#include "store/tiered/cache_fixture.hpp"
#include "support/count_allocations.hpp"

namespace dpi::test::cache_test {
namespace {

TEST_CASE("random calls over more keys than places: every place holds its key's row") {
  for (const int32_t shards : {1, 4}) {
    CacheOptions options = small_options(2000000);
    options.shards = shards;
    Cache c(options);
    auto r = c.reader(3000);
    std::mt19937_64 rng(3);
    uint64_t asked = 0;
    for (int call = 0; call < 300; ++call) {
      std::vector<std::vector<int64_t>> keys(5);
      std::vector<std::vector<int32_t>> places(5);
      std::vector<CacheLookup> lookups;
      for (size_t l = 0; l < keys.size(); ++l) {
        keys[l].resize(rng() % 500);
        places[l].assign(keys[l].size(), -99);
        for (int64_t& k : keys[l]) k = static_cast<int64_t>(rng() % 30000) * 1024 - 5000 * 1024;
        for (size_t i = 0; i < keys[l].size(); i += 40)
          keys[l][i] = std::numeric_limits<int64_t>::min() + (rng() % 3);
        lookups.push_back({static_cast<int32_t>(l % 3), keys[l].data(), static_cast<int64_t>(keys[l].size()),
                           places[l].data()});
        asked += keys[l].size();
      }
      const Status s = c.cache->acquire(*r, lookups, 0);
      REQUIRE_MESSAGE(s.ok(), s.message());
      size_t wrong = 0;
      for (size_t l = 0; l < keys.size(); ++l) {
        for (size_t i = 0; i < keys[l].size(); ++i)
          wrong += !c.right(static_cast<int32_t>(l % 3), keys[l][i], places[l][i]);
      }
      REQUIRE(wrong == 0);
      c.cache->release(*r);
    }
    uint64_t counted = 0, late = 0;
    for (int32_t t = 0; t < 3; ++t) {
      const auto s = c.cache->stats(t).lookups;
      counted += s.hits + s.late + s.absent;
      late += s.late;
      CHECK(s.absent > 100);
      CHECK(s.hits > 100);
      CHECK(s.defaulted == 0);
      CHECK(c.cache->stats(t).fetches.bytes ==
            c.cache->stats(t).fetches.fetched * static_cast<uint64_t>(kDims[t]) * 4);
      CHECK(c.cache->stats(t).fetches.p99_ns >= c.cache->stats(t).fetches.p50_ns);
      CHECK(c.cache->stats(t).fetches.p50_ns > 0);
    }
    CHECK(counted == asked);
    CHECK(late > 10000);  // far more than places: rows were evicted
    for (int32_t s = 0; s < 2; ++s) {
      const auto fill = c.cache->fill(s);
      CHECK(fill.linked + fill.free + fill.waiting ==
            c.cache->plan().classes[static_cast<size_t>(s)].places());
      CHECK(fill.in_flight == 0);
    }
  }
}

TEST_CASE("a call whose rows are here allocates nothing and fetches nothing") {
  Cache c(small_options());
  auto r = c.reader();
  const auto keys = iota(0, 300);
  REQUIRE(c.get(*r, 0, keys).ok());
  const int before = c.source.fetches;
  std::vector<int32_t> places(keys.size());
  const CacheLookup lookup{0, keys.data(), 300, places.data()};
  bool fine = false;
  CHECK(allocations_during([&] {
          fine = c.cache->acquire(*r, {&lookup, 1}, 0).ok();
          c.cache->release(*r);
        }) == 0);
  CHECK(fine);
  CHECK(c.source.fetches == before);
}

TEST_CASE("policy default serves the default row now and the row later") {
  Cache c(small_options(), MissPolicy::kDefault);
  auto r = c.reader();
  c.source.close_gate();
  std::vector<int32_t> places;
  REQUIRE(c.get(*r, 1, {10, 11, 10}, &places).ok());
  for (const int32_t p : places) CHECK(c.is_default(1, p));
  c.cache->release(*r);
  CHECK(c.cache->stats(1).lookups.defaulted == 3);
  c.source.open_gate();
  while (c.cache->fill(1).linked < 2) std::this_thread::yield();
  CHECK(c.get(*r, 1, {10, 11, 10}).ok());
  CHECK(c.cache->stats(1).lookups.hits == 3);
  CHECK(c.source.asked(1, 10) == 1);
}

TEST_CASE("policy fail names table, key and position, and the row is fetched behind") {
  Cache c(small_options(), MissPolicy::kFail);
  auto r = c.reader();
  const Status s = c.get(*r, 2, {33});
  CHECK(s.code() == Code::kNotFound);
  CHECK(s.message() == "table 't2': key 33 is not in host memory");
  CHECK(s.row() == 0);
  CHECK(s.feature() == 0);
  while (c.cache->fill(0).linked < 1) std::this_thread::yield();
  CHECK(c.get(*r, 2, {33}).ok());
}

TEST_CASE("an absent key gets the default row, is asked for once, and again when that is too old") {
  CacheOptions options = small_options();
  options.absent_age_ns = 50'000'000;
  Cache c(options);
  auto r = c.reader();
  for (int i = 0; i < 5; ++i) REQUIRE(c.get(*r, 0, {7, 8, 7}).ok());
  const int asked = c.source.asked(0, 7);
  CHECK(asked <= 2);  // 2 when this thread slept for the whole age
  CHECK(c.cache->stats(0).lookups.absent == 10);
  CHECK(c.source.asked(2, 7) == 0);
  while (c.cache->fill(0).absent > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  REQUIRE(c.get(*r, 0, {7}).ok());
  CHECK(c.source.asked(0, 7) == asked + 1);
  CHECK(c.source.asked(0, 8) == 1);
}

TEST_CASE("absent keys are remembered in bounded room") {
  Cache c(small_options());
  auto r = c.reader();
  for (int64_t k = -3; k > -30000; k -= 300) {
    std::vector<int64_t> keys;
    for (int64_t i = 0; i < 100; ++i) keys.push_back(k - i * 3);
    REQUIRE(c.get(*r, 0, keys).ok());
  }
  const auto& size = c.cache->plan().classes[0];
  CHECK(c.cache->fill(0).absent <= size.remembered * size.shards);
  CHECK(c.cache->fill(0).linked == 0);
}

TEST_CASE("derived scalars are there before a row can be seen") {
  static std::atomic<int> finished{0};
  const FinishRow finish{[](void*, int32_t table, int64_t key, std::byte* row) {
                           float v = 0;
                           std::memcpy(&v, row, 4);
                           const bool is_default = v == -1.0f - static_cast<float>(table);
                           v = is_default ? 0 : element(table, key, 3);  // what the oracle expects there
                           ++finished;
                           std::memcpy(row + 12, &v, 4);
                         },
                         nullptr};
  CacheOptions options = small_options();
  Cache c(options, MissPolicy::kExact, finish);
  auto r = c.reader();
  CHECK(finished == 3);  // the default row of each table
  CHECK(c.get(*r, 0, {1, 2, 3, 7}).ok());
  CHECK(finished == 6);  // not of the absent one
  const float row[] = {element(0, 4, 0), element(0, 4, 1), element(0, 4, 2)};
  REQUIRE(c.cache->preload(0, 4, std::as_bytes(std::span(row))));
  CHECK(c.get(*r, 0, {4}).ok());
  CHECK(finished == 7);
}

TEST_CASE("rows that are asked for once do not push out those that are asked for often") {
  CacheOptions options = small_options(300000);
  options.shards = 1;
  Cache c(options);
  auto r = c.reader();
  const int64_t places = c.cache->plan().classes[0].places();
  const auto hot = iota(1000000, places / 2);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(c.get(*r, 0, hot).ok());
    REQUIRE(c.get(*r, 0, {5000000 + i}).ok());  // who fetches learns
  }
  const uint64_t before = c.cache->stats(0).lookups.late;
  // With least recently used: 100 %. All places are asked for between two uses of a hot key: the least
  // recently used row would always be hot.
  constexpr int64_t kRounds = 20, kAtOnce = 50;
  int64_t scanned = 0;
  for (int64_t round = 0; round < kRounds; ++round) {
    for (int64_t done = 0; done < places; done += kAtOnce, scanned += kAtOnce)
      REQUIRE(c.get(*r, 0, iota(2000000 + scanned, kAtOnce)).ok());
    REQUIRE(c.get(*r, 0, hot).ok());
  }
  const int64_t again = static_cast<int64_t>(c.cache->stats(0).lookups.late - before) - scanned;
  const double share =
      static_cast<double>(again) / static_cast<double>(kRounds * static_cast<int64_t>(hot.size()));
  MESSAGE("hot rows fetched again: " << 100 * share << " %");
  CHECK(share < 0.25);
}

TEST_CASE("a call of more keys than the ring holds samples of warms rows of all its tables") {
  constexpr int64_t kFirst = 4000, kMany = 40000;
  Cache c(small_options(16'000'000));
  auto reader = c.reader(kFirst + kMany);
  const std::vector<std::byte> row(sizeof(float) * 16);
  const auto load = [&](int32_t table, int64_t n) {  // cold
    const auto bytes = std::span(row).first(sizeof(float) * static_cast<size_t>(kDims[table]));
    for (int64_t key = 1; key <= n; ++key) REQUIRE(c.cache->preload(table, key, bytes));
  };
  load(1, kFirst);
  load(0, kMany);
  const int32_t of_first = c.cache->plan().class_of[1], of_many = c.cache->plan().class_of[0];
  REQUIRE(of_first != of_many);
  const std::vector<int64_t> first = iota(1, kFirst), many = iota(1, kMany);
  std::vector<int32_t> places(static_cast<size_t>(kFirst + kMany));
  const CacheLookup lookups[] = {{1, first.data(), kFirst, places.data()},
                                 {0, many.data(), kMany, places.data() + kFirst}};
  for (int call = 0; call < 20; ++call) {
    REQUIRE(c.cache->acquire(*reader, lookups, 0).ok());
    c.cache->release(*reader);
    c.cache->learn();
  }
  CHECK(c.cache->fill(of_first).warm > kFirst / 4);
  CHECK(c.cache->fill(of_many).warm > kMany / 4);
}

}  // namespace
}  // namespace dpi::test::cache_test
