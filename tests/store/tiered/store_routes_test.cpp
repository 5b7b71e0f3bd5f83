// A store of several servers, of which some are down: their rows follow option store.down, the others' are
// read as ever, also where one read asks for both. Each server has its own failures, probe, message and
// counters. Planted, each seen: one breaker for all; rows of the others fail with the read; a probe of one
// server that puts another one up.

#include "store/tiered/down_fixture.hpp"

namespace dpi::test::store_routes_test {
namespace {

constexpr int32_t kServers = 3;

StoreNode node(const Cache& c, size_t server) { return c.cache->stores().at(0).nodes.at(server); }

/// A key of a server that nobody has asked for yet.
int64_t fresh(int64_t server) {
  static int64_t next = 10'000 * kServers;
  next += kServers;
  return next + server;
}

/// Reads keys of a server until its breaker opens.
void bring_down(Cache* c, CacheReader& r, int64_t server) {
  c->source.routes_down |= uint64_t{1} << server;
  for (int i = 0; i < 3; ++i) {
    std::vector<int32_t> places;
    if (c->get(r, 0, {fresh(server)}, &places).ok()) c->cache->release(r);
  }
  CHECK(node(*c, static_cast<size_t>(server)).open);
}

TEST_CASE("one server of three is down: a read that asks all of them brings the others' rows") {
  Cache c(options_of(DownPolicy::kAsMiss));
  c.source.servers = kServers;
  auto r = c.reader();
  c.source.routes_down = 1 << 1;
  const Status s = c.get(*r, 0, {30, 31, 32, 33});
  CHECK(s.code() == Code::kIo);
  CHECK(c.get(*r, 0, {30, 32, 33}).ok());  // compares them
  for (const int64_t key : {30, 32, 33}) CHECK(c.source.asked(0, key) == 1);
  const auto fetches = c.cache->stats(0).fetches;
  CHECK(fetches.failed == 1);
  CHECK(fetches.fetched == 3);
  CHECK(c.cache->stores()[0].failures == 1);
}

TEST_CASE("store.down=default: rows of the server that is down are defaults, the others' are read") {
  LogSink log;
  Cache c(options_of(DownPolicy::kDefault, &log));
  c.source.servers = kServers;
  auto r = c.reader();
  bring_down(&c, *r, 1);
  const StoreStatus down = c.cache->stores()[0];
  CHECK(down.down);
  REQUIRE(down.nodes.size() == 3);
  CHECK_FALSE(down.nodes[0].open);
  CHECK_FALSE(down.nodes[2].open);
  CHECK(down.nodes[1].times_down == 1);
  for (int i = 0; i < 10; ++i) {
    const std::vector<int64_t> keys = {fresh(0), fresh(1), fresh(2)};
    std::vector<int32_t> places;
    REQUIRE(c.get(*r, 0, keys, &places).ok());
    CHECK(c.right(0, keys[0], places[0]));
    CHECK(c.is_default(0, places[1]));
    CHECK(c.right(0, keys[2], places[2]));
    c.cache->release(*r);
    CHECK(c.source.asked(0, keys[1]) == 0);
  }
  CHECK(c.cache->stats(0).lookups.down == 1 + 10);  // the read that opened it, too
  c.source.routes_down = 0;
  REQUIRE(comes([&] { return !node(c, 1).open; }));
  CHECK(c.get(*r, 0, {fresh(0), fresh(1), fresh(2)}).ok());
  CHECK_FALSE(c.cache->stores()[0].down);
  CHECK(node(c, 1).probes >= 1);
  CHECK(node(c, 0).probes + node(c, 2).probes == 0);
  std::vector<std::string> said;
  REQUIRE(comes([&] {
    for (std::string& line : lines(&log)) said.push_back(std::move(line));
    return said.size() >= 2;
  }));
  CHECK_MESSAGE(
      said[0].find("store: node server1 of store 'rows' is down after 3 failed reads: DPI_E_IO, ") == 0,
      said[0]);
  CHECK_MESSAGE(
      said[0].find("; until it answers, its rows not cached follow store.down=default") != std::string::npos,
      said[0]);
  CHECK_MESSAGE(said[1].find("store: node server1 of store 'rows': its rows are read again, after ") == 0,
                said[1]);
}

TEST_CASE("store.down=fail: only calls for rows of that server fail, with its name") {
  Cache c(options_of(DownPolicy::kFail));
  c.source.servers = kServers;
  auto r = c.reader();
  bring_down(&c, *r, 2);
  CHECK(c.get(*r, 0, {fresh(0), fresh(1)}).ok());
  const Status s = c.get(*r, 0, {fresh(0), fresh(2)});
  CHECK(s.code() == Code::kIo);
  CHECK_MESSAGE(s.message().find("table 't0': node server2 of store 'rows' is down (store.down=fail)") == 0,
                s.message());
}

TEST_CASE("two servers are down for causes of their own, and come back one after the other") {
  LogSink log;
  CacheOptions options = options_of(DownPolicy::kDefault, &log);
  options.down.other_cause_ns = 0;
  Cache c(options);
  c.source.servers = kServers;
  auto r = c.reader();
  c.source.routes_down = 1 << 0 | 1 << 2;
  for (int i = 0; i < 3; ++i) {
    std::vector<int32_t> places;
    if (c.get(*r, 0, {fresh(0), fresh(1), fresh(2)}, &places).ok()) c.cache->release(*r);
  }
  CHECK(node(c, 0).open);
  CHECK_FALSE(node(c, 1).open);
  CHECK(node(c, 2).open);
  std::string said;
  const auto says = [&](const std::string& text) {
    return comes([&] {
      for (const std::string& line : lines(&log)) said += line + "\n";
      return said.find(text) != std::string::npos;
    });
  };
  CHECK_MESSAGE(says("node server0 of store 'rows' is down after 3 failed reads: DPI_E_IO, server0 is gone"),
                said);
  CHECK_MESSAGE(says("node server2 of store 'rows' is down after 3 failed reads: DPI_E_IO, server2 is gone"),
                said);
  c.source.failure = Code::kTimeout;
  CHECK_MESSAGE(says("node server2 of store 'rows' is still down, and for another cause: DPI_E_TIMEOUT, "),
                said);
  c.source.routes_down = 1 << 2;
  REQUIRE(comes([&] { return !node(c, 0).open; }));
  CHECK(node(c, 2).open);
  CHECK(c.cache->stores()[0].down);
  CHECK(c.get(*r, 0, {fresh(0), fresh(1)}).ok());
  c.source.routes_down = 0;
  REQUIRE(comes([&] { return !c.cache->stores()[0].down; }));
  CHECK(c.get(*r, 0, {fresh(2)}).ok());
}

TEST_CASE("queued rows of a server that went down are not asked for, the others' of the same read are") {
  CacheOptions options = options_of(DownPolicy::kDefault);
  options.fetch.threads = 1;
  options.down.first_probe_ns = 100'000 * kMs;
  Cache c(options, MissPolicy::kDefault);
  c.source.servers = kServers;
  auto r = c.reader();
  c.source.close_gate();
  c.source.routes_down = 1 << 1;
  std::vector<std::vector<int64_t>> asked;
  for (int i = 0; i < 20; ++i) {
    std::vector<int32_t> places;
    asked.push_back({fresh(0), fresh(1), fresh(2)});
    REQUIRE(c.get(*r, 0, asked.back(), &places).ok());
    c.cache->release(*r);
  }
  CHECK(comes([&] { return c.cache->stores()[0].queued == 19; }));
  c.source.open_gate();
  CHECK(comes([&] { return c.cache->stores()[0].queued + c.cache->stores()[0].running == 0; }));
  CHECK(c.source.fetches == 20);
  const auto fetches = c.cache->stats(0).fetches;
  CHECK(fetches.failed == 3);
  CHECK(fetches.expired == 17);
  CHECK(fetches.fetched == 40);
  CHECK(c.cache->fill(0).in_flight == 0);
  for (const auto& keys : asked) CHECK(c.get(*r, 0, {keys[0], keys[2]}).ok());
}

TEST_CASE(
    "callers on four threads while servers go and come: rows are right or defaults, and all come back") {
  Cache c(options_of(DownPolicy::kDefault), MissPolicy::kExact);
  c.source.servers = kServers;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0}, healthy_failed{0};
  std::vector<std::thread> callers;
  for (int64_t t = 0; t < 4; ++t) {
    callers.emplace_back([&, t] {
      auto r = c.reader();
      for (int64_t i = 0; !stop; ++i) {
        const int64_t base = 3 * (100'000 * (t + 1) + i % 50'000);
        std::vector<int32_t> places;
        const std::vector<int64_t> keys = {base, base + 1, base + 2};
        const Status s = c.get(*r, 0, keys, &places, monotonic_ns() + 5'000 * kMs);
        if (!s.ok()) continue;  // until the breaker is open
        for (size_t k = 0; k < 3; ++k) {
          wrong += c.right(0, keys[k], places[k]) || (k > 0 && c.is_default(0, places[k])) ? 0 : 1;
        }
        c.cache->release(*r);
        if (!c.get(*r, 0, {base + 300'000'000}, &places).ok())
          ++healthy_failed;  // server 0 is up all the time
        else
          c.cache->release(*r);
      }
    });
  }
  for (uint64_t i = 0; i < 12; ++i) {
    c.source.routes_down = (i % 4) << 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(40));
  }
  c.source.routes_down = 0;
  CHECK(comes([&] { return !c.cache->stores()[0].down; }));
  stop = true;
  for (std::thread& t : callers) t.join();
  CHECK(wrong == 0);
  CHECK(healthy_failed == 0);
  CHECK(c.cache->fill(0).in_flight == 0);
}

}  // namespace
}  // namespace dpi::test::store_routes_test
