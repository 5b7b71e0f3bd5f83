// Sixteen callers of one host cache that is far too small, so that rows are evicted all the time: every row
// is the right one while it is held. Meant for ThreadSanitizer too.
#include <atomic>
#include <random>

#include "store/tiered/cache_fixture.hpp"

namespace dpi::test::cache_race_test {
namespace {

struct Tally {
  std::atomic<int64_t> wrong{0}, read{0}, refused{0};
};

void call(Cache& c, CacheReader& r, std::mt19937_64& rng, Tally* tally) {
  std::vector<int64_t> keys[2];
  std::vector<int32_t> places[2];
  std::vector<CacheLookup> lookups;
  for (int32_t l = 0; l < 2; ++l) {
    for (int i = 0; i < 6; ++i) keys[l].push_back(static_cast<int64_t>(rng() % 400) - 60);
    places[l].resize(keys[l].size());
    lookups.push_back({l, keys[l].data(), 6, places[l].data()});
  }
  const Status s = c.cache->acquire(r, lookups, 0);
  if (!s.ok()) {
    tally->refused += 1;
    tally->wrong += s.code() != Code::kQueueFull && s.code() != Code::kOutOfMemory;
    return;
  }
  for (int32_t l = 0; l < 2; ++l) {
    for (size_t i = 0; i < keys[l].size(); ++i) tally->wrong += !c.right(l, keys[l][i], places[l][i]);
  }
  tally->read += 12;
  c.cache->release(r);
}

/// at_hand: callers bring half of the rows themselves.
void race(bool at_hand) {
  CacheOptions options = small_options(24000);
  options.shards = 2;
  options.fetch.threads = 2;
  options.place_wait_ns = 20'000'000'000;
  options.absent_age_ns = 3'000'000;
  Cache c(options);
  c.source.evens_at_hand = at_hand;
  Tally tally;
  std::vector<std::thread> callers;
  for (uint64_t i = 0; i < 16; ++i) {
    callers.emplace_back([&c, &tally, i] {
      auto r = c.reader(64);
      std::mt19937_64 rng(i);
      for (int n = 0; n < 120; ++n) call(c, *r, rng, &tally);
    });
  }
  for (auto& t : callers) t.join();
  CHECK(tally.wrong == 0);
  CHECK(tally.read > 16 * 120 * 6);
  uint64_t fetched = 0;
  for (int32_t t = 0; t < 2; ++t) fetched += c.cache->stats(t).fetches.fetched;
  CHECK(fetched > 1000);  // of 680 keys: rows went and came back
}

TEST_CASE("sixteen callers and a tier of a fraction of their keys") {
  race(false);
  race(true);
}

}  // namespace
}  // namespace dpi::test::cache_race_test
