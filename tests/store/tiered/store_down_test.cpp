// Stores that are down: when one counts as down, what calls get meanwhile (option store.down), when it is
// asked again, and what its status and the log say. Which rows are defaults is judged by the places' content.
// Planted, each seen: a store that is down is asked all the same; a call that waits already goes on waiting;
// failures that never leave the window; probes without back-off.
#include <condition_variable>

#include "store/tiered/down_fixture.hpp"

namespace dpi::test::store_down_test {
namespace {

constexpr int kEver = 1 << 30;

StoreStatus status(const Cache& c) { return c.cache->stores().at(0); }

/// Fails as many fetches as make the store down; the call of the last one gets what the policy says.
void bring_down(Cache* c, CacheReader& r, Code last) {
  c->source.failing = kEver;
  for (int64_t key = 1000; key < 1003; ++key) {
    std::vector<int32_t> places;
    const Status s = c->get(r, 0, {key}, &places);
    CHECK(s.code() == (key < 1002 ? Code::kIo : last));
    if (s.ok()) CHECK(c->is_default(0, places[0]));
    c->cache->release(r);
  }
  CHECK(status(*c).down);
}

TEST_CASE("store.down=default: default rows at once, rows of the tier as ever, right rows once it is up") {
  LogSink log;
  Cache c(options_of(DownPolicy::kDefault, &log));
  auto r = c.reader();
  REQUIRE(c.get(*r, 0, {1, 2}).ok());
  CHECK(status(c).last.code == Code::kOk);
  bring_down(&c, *r, Code::kOk);
  const int asked = c.source.asked(0, 50);
  for (int i = 0; i < 20; ++i) {
    std::vector<int32_t> places;
    REQUIRE(c.get(*r, 0, {1, 50, 2, 51}, &places).ok());
    CHECK(c.right(0, 1, places[0]));
    CHECK(c.right(0, 2, places[2]));
    for (const size_t late : {1, 3}) {
      const auto v = c.cache->view(0);
      CHECK(c.is_default(
          0, reinterpret_cast<const float*>(static_cast<const char*>(v.base) + places[late] * v.row_bytes)));
    }
    c.cache->release(*r);
  }
  CHECK(c.source.asked(0, 50) == asked);
  const TableCounts counts = c.cache->stats(0).lookups;
  CHECK(counts.down == 1 + 40);
  CHECK(counts.defaulted == 1 + 40);
  CHECK(counts.hits == 40);
  c.source.failing = 0;
  REQUIRE(comes([&] { return !status(c).down; }));
  CHECK(c.get(*r, 0, {50, 51}).ok());             // and looks at the rows
  CHECK(c.cache->stats(0).fetches.expired == 0);  // no fetch was even queued meanwhile
  const StoreStatus after = status(c);
  CHECK(after.times_down == 1);
  CHECK(after.failures >= 3);
  CHECK(after.probes >= 1);
  CHECK(after.last.code == Code::kIo);
  CHECK(after.last.text == "the disk is gone");
  CHECK(after.last.at_ms > 0);
  CHECK(after.since_ms >= after.last.at_ms);
  std::vector<std::string> said;
  REQUIRE(comes([&] {
    for (std::string& line : lines(&log)) said.push_back(std::move(line));
    return said.size() >= 2;
  }));
  CHECK(said.size() == 2);
  CHECK_MESSAGE(said[0].find("store: store 'rows' is down after 3 failed reads: DPI_E_IO, the disk is gone; "
                             "until it answers, rows not cached follow store.down=default") == 0,
                said[0]);
  CHECK_MESSAGE(said[1].find("store: store 'rows' is up again after ") == 0, said[1]);
}

TEST_CASE("store.down=fail: DPI_E_IO at once, whatever the table's miss") {
  for (const MissPolicy miss : {MissPolicy::kExact, MissPolicy::kDefault, MissPolicy::kFail}) {
    Cache c(options_of(DownPolicy::kFail), miss);
    auto r = c.reader();
    c.source.failing = kEver;
    for (int64_t key = 1000; !status(c).down; ++key) {
      REQUIRE(key < 10000);
      std::vector<int32_t> places;
      if (c.get(*r, 0, {key}, &places).ok()) c.cache->release(*r);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const uint64_t before = c.cache->stats(0).lookups.down;
    const Status s = c.get(*r, 0, {50});
    CHECK(s.code() == Code::kIo);
    CHECK_MESSAGE(
        s.message() == "table 't0': store 'rows' is down (store.down=fail); its last error: the disk is gone",
        s.message());
    CHECK(c.source.asked(0, 50) == 0);
    CHECK_FALSE(r->inside);
    CHECK(c.cache->stats(0).lookups.down == before + 1);
    c.source.failing = 0;
    REQUIRE(comes([&] { return !status(c).down; }));
    std::vector<int32_t> places;
    CHECK(comes([&] {
      const bool ok = c.get(*r, 0, {50}, &places).ok();
      const bool right = ok && c.right(0, 50, places[0]);
      c.cache->release(*r);
      return right;
    }));
  }
}

TEST_CASE("store.down=as_miss: the store is asked as ever, and its status says that it is down") {
  Cache c(options_of(DownPolicy::kAsMiss));
  auto r = c.reader();
  bring_down(&c, *r, Code::kIo);
  CHECK(c.get(*r, 0, {50}).code() == Code::kIo);
  CHECK(c.source.asked(0, 50) == 1);
  CHECK(c.cache->stats(0).lookups.down == 0);
  c.source.failing = 0;
  CHECK(c.get(*r, 0, {50}).ok());
  CHECK(comes([&] { return !status(c).down; }));
  CHECK(status(c).last.text == "the disk is gone");
}

TEST_CASE("failures make a store down when enough of them come within the time") {
  CacheOptions options = options_of(DownPolicy::kDefault);
  options.down.window_ns = 20 * kMs;
  Cache c(options);
  auto r = c.reader();
  c.source.failing = kEver;
  for (int64_t key = 1000; key < 1006; ++key) {
    CHECK(c.get(*r, 0, {key}).code() == Code::kIo);
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  CHECK_FALSE(status(c).down);
  CHECK(status(c).failures == 6);
  c.source.failure = Code::kUnsupported;  // of a row, not of the store
  for (int64_t key = 2000; key < 2006; ++key) CHECK(c.get(*r, 0, {key}).code() == Code::kUnsupported);
  CHECK_FALSE(status(c).down);
}

TEST_CASE("a store that stays down is asked less and less often, with one row") {
  Cache c(options_of(DownPolicy::kDefault));
  auto r = c.reader();
  bring_down(&c, *r, Code::kOk);
  const int before = c.source.fetches;
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  const int probes = c.source.fetches - before;  // after 20, 60, 140, 220, ... ms, at ticks of 50 ms
  CHECK(probes >= 3);
  CHECK(probes <= 14);
  CHECK(comes([&] { return status(c).probes >= static_cast<uint64_t>(probes); }));
  CHECK(comes([&] { return c.source.asked(0, 1002) == 1 + c.source.fetches - before; }));  // probes go on
}

/// Fails at once, but for one key, which hangs.
class Hanging final : public RowSource {
 public:
  static constexpr int64_t kHangs = 5;
  Status fetch(const FetchRequest& r) override {
    if (r.keys[0] != kHangs) return {Code::kIo, "gone"};
    std::unique_lock<std::mutex> lock(mutex_);
    hangs = true;
    changed_.wait(lock, [&] { return over_; });
    return {Code::kTimeout, "hung"};
  }
  void end() {
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  std::atomic<bool> hangs{false};

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
};

TEST_CASE("a call that waits already goes on with default rows once its store is down") {
  std::vector<CacheTable> one(1);
  one[0].row = {"t0", 0, 4, kernels::DType::kF32};
  Hanging source;
  auto cache = HostCache::make(one, options_of(DownPolicy::kDefault), &source, {}, {}).value();
  const auto ask = [&](int64_t key) {
    auto r = cache->make_reader(8).value();
    int32_t place = -99;
    const CacheLookup lookup{0, &key, 1, &place};
    const Status s = cache->acquire(*r, {&lookup, 1}, 0);
    CHECK((!s.ok() || place == cache->default_place(0)));
    return s.code();
  };
  std::thread waits([&] { CHECK(ask(Hanging::kHangs) == Code::kOk); });
  REQUIRE(comes([&] { return source.hangs.load(); }));
  int failed = 0;
  while (ask(100 + failed) == Code::kIo) ++failed;
  CHECK(failed == 2);  // the third is answered with the default row, too
  waits.join();
  CHECK(cache->stores()[0].running >= 1);
  CHECK(cache->stores()[0].oldest_ns > 0);
  source.end();
}

TEST_CASE("queued fetches of a store that is down leave the queue unread") {
  CacheOptions options = options_of(DownPolicy::kDefault);
  options.fetch.threads = 1;
  options.down.first_probe_ns = 100'000 * kMs;
  Cache c(options, MissPolicy::kDefault);
  auto r = c.reader();
  c.source.close_gate();
  c.source.failing = kEver;
  std::vector<int32_t> places;
  for (int64_t key = 100; key < 120; ++key) {
    REQUIRE(c.get(*r, 0, {key}, &places).ok());
    c.cache->release(*r);
  }
  CHECK(comes([&] { return status(c).running == 1; }));
  CHECK(status(c).queued == 19);
  c.source.open_gate();
  CHECK(comes([&] { return status(c).queued + status(c).running == 0; }));
  CHECK(c.source.fetches == 3);
  CHECK(c.cache->stats(0).fetches.failed == 3);
  CHECK(c.cache->stats(0).fetches.expired == 17);
  CHECK(c.cache->fill(0).in_flight == 0);
}

}  // namespace
}  // namespace dpi::test::store_down_test
