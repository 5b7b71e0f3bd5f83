// The host cache in trouble: slow, failing and lying sources, deadlines, full queues, budgets too small.
#include <cstdlib>

#include "store/tiered/cache_fixture.hpp"

namespace dpi::test::cache_trouble_test {
namespace {

constexpr uint64_t kMs = 1'000'000;

TEST_CASE("however many calls want a key, it is fetched once") {
  Cache c(small_options());
  c.source.close_gate();
  std::vector<std::thread> callers;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&c, &right] {
      auto r = c.reader();
      std::vector<int32_t> places;
      const std::vector<int64_t> keys = {5, 6, 5, 100};
      if (!c.get(*r, 1, keys, &places).ok()) return;
      for (size_t k = 0; k < keys.size(); ++k) right += c.right(1, keys[k], places[k]);
      c.cache->release(*r);
    });
  }
  while (c.source.fetches == 0) std::this_thread::yield();
  c.source.open_gate();
  for (auto& t : callers) t.join();
  CHECK(right == 32);
  for (const int64_t k : {5, 6, 100}) CHECK(c.source.asked(1, k) == 1);
}

TEST_CASE("at the deadline the call is over, and the row comes all the same") {
  Cache c(small_options());
  auto r = c.reader();
  c.source.close_gate();
  const Status s = c.get(*r, 0, {1, 2}, nullptr, monotonic_ns() + 20 * kMs);
  CHECK(s.code() == Code::kTimeout);
  CHECK(s.message() == "the deadline passed while rows of table 't0' were fetched");
  CHECK_FALSE(r->inside);
  c.source.open_gate();
  while (c.cache->fill(0).linked < 2) std::this_thread::yield();
  CHECK(c.get(*r, 0, {1, 2}, nullptr, monotonic_ns() + 5000 * kMs).ok());
  CHECK(c.source.asked(0, 1) == 1);
}

TEST_CASE("a failing source is a status for every caller, and is asked again") {
  Cache c(small_options());
  auto r = c.reader();
  c.source.failing = 1;
  const Status s = c.get(*r, 0, {1, 2});
  CHECK(s.code() == Code::kIo);
  CHECK(s.message() == "table 't0': the disk is gone");
  CHECK(c.cache->fill(0).linked == 0);
  CHECK(c.cache->stats(0).fetches.failed == 2);
  CHECK(c.get(*r, 0, {1, 2}).ok());
  c.source.failure = Code::kTimeout;  // another caller's deadline: once more
  c.source.failing = 1;
  CHECK(c.get(*r, 0, {3}).ok());
  c.source.failing = 2;
  CHECK(c.get(*r, 0, {4}).code() == Code::kTimeout);
  CHECK(c.cache->fill(0).waiting + c.cache->fill(0).free + 3 == c.cache->plan().classes[0].places());
}

TEST_CASE("a source that lies about what it found is not believed") {
  Cache c(small_options());
  auto r = c.reader();
  c.source.writes_nothing = true;
  const Status nothing = c.get(*r, 1, {1});
  CHECK(nothing.code() == Code::kInternal);
  CHECK(nothing.message() == "table 't1': the source found key 1, but wrote no row");
  c.source.writes_nothing = false;
  c.source.finds_too_much = true;
  CHECK(c.get(*r, 1, {1}).message() == "table 't1': the source found a row that it was not asked for");
  c.source.finds_too_much = false;
  CHECK(c.cache->fill(1).linked == 0);
  CHECK(c.get(*r, 1, {1}).ok());
}

TEST_CASE("all fetches taken is kQueueFull, for exact at once and for default a count") {
  CacheOptions options = small_options();
  options.fetch.jobs = 1;
  options.fetch.threads = 1;
  for (const bool by_bytes : {false, true}) {
    if (by_bytes) options.fetch.jobs = 8, options.fetch.bytes_in_flight = 1;
    Cache exact(options);
    auto first = exact.reader(), second = exact.reader();
    exact.source.close_gate();
    std::thread other([&] { CHECK(exact.get(*first, 0, {1}).ok()); });
    while (exact.source.fetches == 0) std::this_thread::yield();
    const Status s = exact.get(*second, 0, {2});
    CHECK(s.code() == Code::kQueueFull);
    CHECK(s.message().find("the fetch queue is full (store.fetch_queue, store.fetch_bytes)") == 0);
    exact.source.open_gate();
    other.join();
  }
  Cache behind(options, MissPolicy::kDefault);
  auto r = behind.reader();
  behind.source.close_gate();
  std::vector<int32_t> places;
  CHECK(behind.get(*r, 0, {1}, &places).ok());
  behind.cache->release(*r);
  CHECK(behind.get(*r, 0, {2}, &places).ok());
  CHECK(behind.is_default(0, places[0]));
  CHECK(behind.cache->stats(0).lookups.dropped == 1);
  behind.source.open_gate();
}

TEST_CASE("a call of more rows than fetches can carry at once goes in turns") {
  CacheOptions options = small_options(2000000);
  options.fetch.jobs = 2;
  options.fetch.job_rows = 16;
  Cache c(options);
  auto r = c.reader();
  CHECK(c.get(*r, 0, iota(100, 1000)).ok());
  CHECK(c.cache->stats(0).lookups.late + c.cache->stats(0).lookups.hits == 1000);
}

TEST_CASE("exactly as many rows as there are places, one more, and after an eviction of all") {
  CacheOptions options = small_options(20000);
  options.shards = 1;
  Cache c(options);
  auto r = c.reader();
  const int64_t places = c.cache->plan().classes[0].places();
  REQUIRE(places > 20);
  for (int64_t round = 0; round < 4; ++round) CHECK(c.get(*r, 0, iota(10000 * (round + 1), places)).ok());
  const Status s = c.get(*r, 0, iota(500, places + 1));
  CHECK(s.code() == Code::kOutOfMemory);
  CHECK(s.message() == "the call's " + std::to_string(places + 1) + " distinct keys need " +
                           std::to_string(places + 1) + " places of a part of the host tier that has " +
                           std::to_string(places) + "; the tier has 20000 bytes");
  CHECK(c.get(*r, 0, iota(600, places)).ok());
  const auto t = c.cache->stats(0).lookups;
  CHECK(t.hits + t.late + t.absent == static_cast<uint64_t>(5 * places));
}

TEST_CASE("two calls that together need more than all places: one waits for the other, and not for ever") {
  CacheOptions options = small_options(20000);
  options.shards = 1;
  Cache c(options);
  auto first = c.reader(), second = c.reader();
  const int64_t places = c.cache->plan().classes[0].places();
  std::vector<int32_t> held;
  REQUIRE(c.get(*first, 0, iota(100, places * 2 / 3), &held).ok());
  const Status s = c.get(*second, 0, iota(9000, places * 2 / 3));
  CHECK(s.code() == Code::kOutOfMemory);
  CHECK(s.message().find("running calls left it ") != std::string::npos);
  CHECK(c.get(*second, 0, iota(9000, places * 2 / 3), nullptr, monotonic_ns() + 20 * kMs).code() ==
        Code::kTimeout);
  for (size_t i = 0; i < held.size(); ++i) CHECK(c.right(0, 100 + static_cast<int64_t>(i), held[i]));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    c.cache->release(*first);
  });
  CHECK(c.get(*second, 0, iota(9000, places * 2 / 3)).ok());
  later.join();
}

TEST_CASE("many calls of all places at once all come through") {
  CacheOptions options = small_options(20000);
  options.shards = 1;
  options.place_wait_ns = 20'000 * kMs;
  Cache c(options);
  const int64_t places = c.cache->plan().classes[0].places();
  std::vector<std::thread> callers;
  std::atomic<int> fine{0};
  for (int64_t i = 0; i < 6; ++i) {
    callers.emplace_back([&c, &fine, places, i] {
      auto r = c.reader();
      for (int64_t round = 0; round < 5; ++round) {
        std::vector<int32_t> got;
        const auto keys = iota(100000 * (i + 1) + round * 50, places);
        if (!c.get(*r, 0, keys, &got).ok()) continue;
        bool right = true;
        for (size_t k = 0; k < keys.size(); ++k) right = right && c.right(0, keys[k], got[k]);
        fine += right;
        c.cache->release(*r);
      }
    });
  }
  for (auto& t : callers) t.join();
  CHECK(fine == 30);
}

TEST_CASE("a tier of one place serves one row at a time") {
  CacheOptions options = small_options(0);
  std::vector<CacheTable> one(1);
  one[0].row = {"t0", 0, 4, kernels::DType::kF32};
  FakeSource source({4});
  CHECK(HostCache::make(one, options, &source, {}, {}).status().code() == Code::kOutOfMemory);
  while (!HostCache::make(one, options, &source, {}, {}).ok()) options.budget += 16;
  auto cache = HostCache::make(one, options, &source, {}, {}).value();
  CHECK(cache->plan().classes[0].places() == 1);
  auto r = cache->make_reader(8).value();
  for (int64_t key = 100; key < 140; ++key) {
    const int64_t keys[] = {key, key};
    int32_t places[2];
    const CacheLookup lookup{0, keys, 2, places};
    const Status s = cache->acquire(*r, {&lookup, 1}, 0);
    REQUIRE_MESSAGE(s.ok(), s.message());
    CHECK(places[0] == 0);
    CHECK(places[1] == 0);
    CHECK(*static_cast<const float*>(cache->view(0).base) == element(0, key, 0));
    cache->release(*r);
  }
}

TEST_CASE("misuse is named") {
  Cache c(small_options());
  auto r = c.reader(4);
  CHECK(c.get(*r, 0, iota(0, 5)).message() == "a call of 5 keys in a context for 4");
  std::vector<int32_t> places;
  REQUIRE(c.get(*r, 0, {1}, &places).ok());
  CHECK(c.get(*r, 0, {1}).code() == Code::kInternal);
}

}  // namespace
}  // namespace dpi::test::cache_trouble_test
