// Rows that the tier below has at hand are brought by the caller itself, whatever its threads do; the others
// by those. Planted faults: ready rows of a job published by the numbers that they had before it was made
// smaller, a ready row left in the job, nobody woken who joined one, a liar believed, rows read ahead for
// policy default, no bound on rows under way, a call that was cancelled.
#include "store/tiered/cache_fixture.hpp"

namespace dpi::test::at_hand_test {
namespace {

constexpr uint64_t kMs = 1'000'000;

std::vector<int64_t> every_other(int64_t first, int64_t n) {
  std::vector<int64_t> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(first + 2 * i);
  return v;
}

TEST_CASE("rows at hand come while no fetch thread answers") {
  Cache c(small_options());
  c.source.evens_at_hand = true;
  c.source.close_gate();
  auto r = c.reader();
  CHECK(c.get(*r, 1, every_other(10, 200)).ok());
  CHECK(c.get(*r, 0, {2, 4, 2}).ok());
  CHECK(c.source.fetches == 0);
  const HostCache::Stats s = c.cache->stats(1);
  CHECK(s.lookups.late == 200);
  CHECK(s.fetches.fetched == 200);
  CHECK(s.fetches.bytes == 200 * 64);
  CHECK(c.cache->fill(0).in_flight + c.cache->fill(1).in_flight == 0);
  c.source.open_gate();
}

TEST_CASE("of a mixed call the rows at hand are there at once, the others when the threads bring them") {
  Cache c(small_options());
  c.source.evens_at_hand = true;
  auto r = c.reader();
  CHECK(c.get(*r, 1, iota(0, 150)).ok());  // 7 is absent
  CHECK(c.cache->stats(1).fetches.fetched == 149);
  CHECK(c.cache->stats(1).fetches.absent == 1);
  for (int64_t k = 0; k < 150; ++k) CHECK(c.source.asked(1, k) == k % 2);
  c.source.close_gate();
  std::vector<int32_t> places;
  const Status late = c.get(*r, 0, iota(1000, 40), &places, monotonic_ns() + 20 * kMs);
  CHECK(late.code() == Code::kTimeout);
  CHECK(late.message() == "the deadline passed while rows of table 't0' were fetched");
  CHECK(c.source.ready_deadline_ns > 0);
  CHECK(c.cache->fill(0).linked == 20);
  CHECK(c.get(*r, 0, every_other(1000, 20)).ok());
  c.source.open_gate();
  CHECK(c.get(*r, 0, iota(1000, 40)).ok());
}

TEST_CASE("who waits for another call's row is woken though that call brought it itself") {
  Cache c(small_options());
  c.source.evens_at_hand = true;
  c.source.delay_us = 1000;
  std::vector<std::thread> callers;
  std::atomic<int> fine{0};
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&c, &fine] {
      auto r = c.reader();
      for (int64_t n = 0; n < 30; ++n) {
        const std::vector<int64_t> keys = every_other(n * 16, 16);
        std::vector<int32_t> places;
        if (!c.get(*r, 1, keys, &places).ok()) return;  // for ever when nobody wakes it
        bool right = true;
        for (size_t k = 0; k < keys.size(); ++k) right = right && c.right(1, keys[k], places[k]);
        fine += right;
        c.cache->release(*r);
      }
    });
  }
  for (auto& t : callers) t.join();
  CHECK(fine == 240);
}

TEST_CASE("a source that lies about rows at hand is not believed, and told by the threads") {
  Cache c(small_options());
  c.source.evens_at_hand = true;
  c.source.writes_nothing = true;
  auto r = c.reader();
  CHECK(c.get(*r, 1, {2, 4}).message() == "table 't1': the source found key 2, but wrote no row");
  CHECK(c.cache->fill(1).linked == 0);
  c.source.writes_nothing = false;
  CHECK(c.get(*r, 1, {2, 4}).ok());
}

TEST_CASE("who does not wait for its rows does not bring them either") {
  for (const MissPolicy policy : {MissPolicy::kDefault, MissPolicy::kFail}) {
    Cache c(small_options(), policy);
    c.source.evens_at_hand = true;
    auto r = c.reader();
    std::vector<int32_t> places;
    const Status s = c.get(*r, 0, {2}, &places);
    CHECK(s.code() == (policy == MissPolicy::kFail ? Code::kNotFound : Code::kOk));
    CHECK((!s.ok() || c.is_default(0, places[0])));
    c.cache->release(*r);
    while (c.cache->fill(0).linked < 1) std::this_thread::yield();
    CHECK(c.source.readied == 0);
    CHECK(c.source.asked(0, 2) == 1);
  }
}

TEST_CASE("a call that is cancelled brings nothing more") {
  Cache c(small_options());
  c.source.evens_at_hand = true;
  c.source.close_gate();
  auto r = c.reader();
  const int64_t key = 2;
  int32_t place = -1, cancelled = 1;
  const CacheLookup lookup{0, &key, 1, &place};
  CHECK(c.cache->acquire(*r, {&lookup, 1}, 0, true, &cancelled).code() == Code::kCancelled);
  CHECK(c.source.readied == 0);
  c.source.open_gate();
}

TEST_CASE("while many rows are under way, callers leave the tier below alone") {
  Cache c(small_options());
  c.source.evens_at_hand = true;
  c.source.close_gate();
  auto r = c.reader();
  CHECK(c.get(*r, 0, every_other(1, 300), nullptr, monotonic_ns() + 10 * kMs).code() == Code::kTimeout);
  CHECK(c.source.readied == 2);  // of 64 rows each
  CHECK(c.get(*r, 0, {2}, nullptr, monotonic_ns() + 10 * kMs).code() == Code::kTimeout);
  CHECK(c.source.readied == 2);
  c.source.open_gate();
  CHECK(c.get(*r, 0, every_other(1, 300)).ok());
  while (c.cache->fill(0).in_flight > 0) std::this_thread::yield();
  CHECK(c.get(*r, 0, {4}).ok());
  CHECK(c.source.asked(0, 4) == 0);
}

}  // namespace
}  // namespace dpi::test::at_hand_test
