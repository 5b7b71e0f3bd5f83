// Three masters, and three with a replica each: exact rows while slots move and servers go. Slots move to one
// server only: moved to and fro at once, Redis 7.0's servers may end up naming each other as the owner.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "store/redis/handle.hpp"
#include "store/redis/redis_server.hpp"
#include "store/redis/slots.hpp"
#include "store/redis/table.hpp"

namespace dpi::test::cluster_test {
namespace {

int32_t code(Code c) { return static_cast<int32_t>(c); }
constexpr uint64_t kSecond = 1'000'000'000;

// Threads that fetch and compare until they are told to stop.
class Load {
 public:
  Load(const Handle& h, const KnownTable& t, int threads, uint64_t timeout_ns) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, &h, &t, i, timeout_ns] {
        for (uint64_t round = 0; !stop_; ++round) {
          const std::string wrong = compare(
              h, 0, t, some_keys(t, 1 + round % 300, static_cast<uint64_t>(i) << 32 | round), timeout_ns);
          ++(wrong.empty() ? right : wrong.starts_with("code ") ? failed : mistaken);
          if (!wrong.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
      });
    }
  }
  ~Load() { stop(); }
  void stop() {
    stop_ = true;
    for (std::thread& t : threads_) {
      if (t.joinable()) t.join();
    }
  }
  std::atomic<int64_t> right{0}, failed{0}, mistaken{0};

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

// The slot of a partition that has rows, and which server has it.
uint16_t slot_of_partition(const KnownTable& t, int64_t partition) {
  return redis::slot_of(redis::Table::make(t.described())->partition_key(partition));
}

size_t owner_of(uint16_t slot, size_t masters) {
  for (size_t i = 0; i < masters; ++i) {
    if (slot < 16384 * (i + 1) / masters) return i;
  }
  return masters;
}

double seconds_until_right(const Handle& h, const KnownTable& t) {
  const uint64_t start = monotonic_ns();
  while (monotonic_ns() - start < 60 * kSecond) {
    if (compare(h, 0, t, t.keys, kSecond).empty()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return static_cast<double>(monotonic_ns() - start) * 1e-9;
}

}  // namespace

TEST_CASE("rows come back through each of three servers, and every one of them has some") {
  if (!redis_installed()) return;
  RedisCluster cluster(3);
  const auto t = KnownTable::make("x", 'a', 16, 30'000, true, 1);
  load({{"address", cluster.addresses()}}, t);
  for (size_t i = 0; i < 3; ++i) {
    Handle h;
    REQUIRE_MESSAGE(h.open({{"address", cluster[i].address()}}, {&t}, DPI_STORE_READ) == 0, h.message());
    for (const size_t n : {0, 1, 100, 5000}) CHECK(compare(h, 0, t, some_keys(t, n, n + i)) == "");
    CHECK(std::stoi(cluster[i].ask({"DBSIZE"})) >= 4);
  }
  CHECK(cluster.errors("MOVED") == 0);  // the map was right from the start
  Handle w;
  REQUIRE(w.open({{"address", cluster.addresses()}}, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE(w.drop(0) == 0);
  for (size_t i = 0; i < 3; ++i) CHECK(cluster[i].ask({"DBSIZE"}) == "0");
}

TEST_CASE("rows that one of three servers has lost are told with that server's name") {
  if (!redis_installed()) return;
  RedisCluster cluster(3);
  const auto t = KnownTable::make("x", 'a', 16, 30'000, true, 1);
  load({{"address", cluster.addresses()}}, t);
  Handle h;
  REQUIRE(h.open({{"address", cluster.addresses()}}, {&t}, DPI_STORE_READ) == 0);
  CHECK(cluster[2].ask({"FLUSHALL"}) == "OK");
  const Fetched lost = h.fetch(0, t.keys, t.row_bytes());
  INFO(lost.message);
  CHECK(lost.code == code(Code::kIo));
  CHECK(lost.message.starts_with("redis " + cluster[2].address() + ": table 'x': partition "));
}

TEST_CASE("slots move while eight threads fetch: MOVED and ASK are followed, no row is missed") {
  if (!redis_installed()) return;
  RedisCluster cluster(3);
  const auto t = KnownTable::make("x", 'a', 8, 10'000, true, 1);
  load({{"address", cluster.addresses()}, {"partitions", "24"}}, t);
  Handle h;
  REQUIRE(h.open({{"address", cluster[0].address()}}, {&t}, DPI_STORE_READ) == 0);
  Load running(h, t, 8, 5 * kSecond);
  int moves = 0;
  for (int64_t p = 0; p < 24 && moves < 12; ++p) {
    const uint16_t slot = slot_of_partition(t, p);
    const size_t from = owner_of(slot, 3);
    if (from == 1) continue;
    ++moves;
    // Half way, when its keys are there and its owner is not, a fetch is right without waiting for the rest.
    struct Context {
      const Handle& h;
      const KnownTable& t;
      std::string wrong;
    } context{h, t, ""};
    cluster.move_slot(
        slot, cluster[from], cluster[1],
        [](void* c) {
          auto* x = static_cast<Context*>(c);
          x->wrong = compare(x->h, 0, x->t, x->t.keys, 5 * kSecond);
        },
        &context);
    CHECK(context.wrong == "");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  running.stop();
  MESSAGE("fetches ", running.right.load(), ", MOVED ", cluster.errors("MOVED"), ", ASK ",
          cluster.errors("ASK"));
  CHECK(running.mistaken == 0);
  CHECK(running.failed == 0);
  CHECK(running.right > 100);
  CHECK(moves == 12);
  CHECK(cluster.errors("MOVED") >= moves);
  CHECK(cluster.errors("ASK") >= moves);
}

TEST_CASE("a table is loaded while slots move") {
  if (!redis_installed()) return;
  RedisCluster cluster(3);
  const auto t = KnownTable::make("x", 'a', 8, 40'000, true, 2);
  const Settings settings = {{"address", cluster[1].address()}, {"partitions", "24"}};
  Handle w;
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  std::atomic<bool> moved{false};
  std::thread mover([&] {
    for (int64_t p = 0; p < 24; ++p) {
      const uint16_t slot = slot_of_partition(t, p);
      const size_t from = owner_of(slot, 3);
      if (from != 1) cluster.move_slot(slot, cluster[from], cluster[1]);
    }
    moved = true;
  });
  int64_t done = 0;
  for (int64_t step = 500; done < t.rows(); done += step) {
    const int32_t c = w.write(0, t, done, std::min(done + step, t.rows()), 1);
    if (c != 0) break;
  }
  mover.join();
  CHECK_MESSAGE(done >= t.rows(), w.message());
  REQUIRE_MESSAGE(w.complete(0) == 0, w.message());
  MESSAGE("MOVED ", cluster.errors("MOVED"), ", ASK ", cluster.errors("ASK"));
  CHECK(cluster.errors("MOVED") + cluster.errors("ASK") > 0);
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&t}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, t, t.keys) == "");
}

TEST_CASE("a master that hangs or goes costs deadlines, not rows; it comes back") {
  if (!redis_installed()) return;
  RedisCluster cluster(3, 0, {"--cluster-require-full-coverage", "no"});
  const auto t = KnownTable::make("x", 'a', 8, 5'000, true, 1);
  load({{"address", cluster.addresses()}, {"partitions", "24"}}, t);
  Handle h;
  REQUIRE(h.open({{"address", cluster.addresses()}}, {&t}, DPI_STORE_READ) == 0);
  CHECK(compare(h, 0, t, t.keys) == "");
  cluster[1].pause();
  for (int i = 0; i < 3; ++i) {
    const uint64_t start = monotonic_ns();
    const Fetched f = h.fetch(0, t.keys, t.row_bytes(), kSecond / 5);
    CHECK(f.code == code(Code::kTimeout));
    CHECK_MESSAGE(f.message.find(cluster[1].address()) != std::string::npos, f.message);
    CHECK(monotonic_ns() - start < 2 * kSecond);
  }
  cluster[1].resume();
  const double seconds = seconds_until_right(h, t);
  MESSAGE("after SIGCONT: right again in ", seconds, " s");
  CHECK(seconds < 20);
}

// Who asks which keys failed gets the rows of the servers that answer, whatever the others do.
TEST_CASE("a master that hangs, is gone or has lost its rows takes no rows of the others with it") {
  if (!redis_installed()) return;
  RedisCluster cluster(3, 0, {"--cluster-require-full-coverage", "no"});
  const auto t = KnownTable::make("x", 'a', 8, 5'000, true, 1);
  load({{"address", cluster.addresses()}, {"partitions", "24"}}, t);
  Handle h;
  REQUIRE(h.open({{"address", cluster.addresses()}}, {&t}, DPI_STORE_READ) == 0);
  std::map<int32_t, int> routes;
  for (const int64_t key : t.keys) ++routes[h.route(0, key)];
  CHECK(routes.size() == 3);
  std::vector<dpi_store_node> nodes(8);
  nodes.resize(static_cast<size_t>(h.nodes(nodes.data(), 8)));
  const auto failing = std::find_if(nodes.begin(), nodes.end(),
                                    [&](const auto& n) { return n.address == cluster[1].address(); });
  REQUIRE(failing != nodes.end());
  const auto check_others = [&](const Handle& asked, Code why) {
    const Fetched f =
        asked.fetch_each(0, t.keys, t.row_bytes(), why == Code::kTimeout ? kSecond : 10 * kSecond);
    CHECK_MESSAGE(f.code == code(why), f.message);
    CHECK_MESSAGE(f.message.find(cluster[1].address()) != std::string::npos, f.message);
    int64_t wrong = 0, missed = 0;
    for (size_t i = 0; i < t.keys.size(); ++i) {
      const bool here = h.route(0, t.keys[i]) == failing->route;
      const auto* row = f.rows.data() + static_cast<int64_t>(i) * t.row_bytes();
      missed += f.misses(i) ? 1 : 0;
      wrong += f.misses(i) && !here ? 1 : 0;
      if (!f.misses(i)) wrong += f.has(i) && std::memcmp(row, t.row(t.keys[i]), 32) == 0 ? 0 : 1;
    }
    CHECK(wrong == 0);
    CHECK(missed > 0);
    return missed;
  };
  Handle greets;  // READONLY, so that a new connection to a server that hangs takes all the time there is
  REQUIRE(greets.open({{"address", cluster.addresses()}, {"replicas", "on"}, {"connect_timeout_ms", "10000"}},
                      {&t}, DPI_STORE_READ) == 0);
  CHECK(compare(greets, 0, t, t.keys) == "");
  cluster[1].pause();
  CHECK(check_others(h, Code::kTimeout) == routes[failing->route]);
  for (int i = 0; i < 2; ++i) CHECK(check_others(greets, Code::kTimeout) == routes[failing->route]);
  cluster[1].resume();
  CHECK(seconds_until_right(h, t) < 20);
  CHECK(h.fetch_each(0, t.keys, t.row_bytes()).code == 0);
  REQUIRE(cluster[1].ask({"FLUSHALL"}) == "OK");
  CHECK(check_others(h, Code::kIo) == routes[failing->route]);
  cluster[1].kill();
  CHECK(check_others(h, Code::kIo) == routes[failing->route]);
}

TEST_CASE("a replica takes over from a master that was killed") {
  if (!redis_installed()) return;
  RedisCluster cluster(3, 1);
  const auto t = KnownTable::make("x", 'a', 8, 5'000, true, 1);
  load({{"address", cluster.addresses()}, {"partitions", "24"}, {"write_replicas", "1"}}, t);
  cluster.wait_until_replicas_are_told();
  Handle masters_only, also_replicas;
  REQUIRE(masters_only.open({{"address", cluster.addresses()}}, {&t}, DPI_STORE_READ) == 0);
  REQUIRE(also_replicas.open({{"address", cluster.addresses()}, {"replicas", "on"}}, {&t}, DPI_STORE_READ) ==
          0);
  Load running(masters_only, t, 2, kSecond);
  for (int i = 0; i < 20; ++i) CHECK(compare(also_replicas, 0, t, t.keys) == "");
  for (size_t i = 3; i < 6; ++i) CHECK(cluster[i].calls("hmget") > 0);  // replicas have answered

  cluster[0].kill();
  // Rows of the dead master are read from its replica at once.
  CHECK(seconds_until_right(also_replicas, t) < 2);
  const double seconds = seconds_until_right(masters_only, t);
  MESSAGE("after SIGKILL of a master: right again in ", seconds, " s");
  CHECK(seconds < 30);
  running.stop();
  CHECK(running.mistaken == 0);
  CHECK(running.right > 0);
  CHECK(compare(also_replicas, 0, t, t.keys) == "");
}

TEST_CASE("a master is killed while a table is loaded: the writer waits for its replica") {
  if (!redis_installed()) return;
  RedisCluster cluster(3, 1);
  const auto t = KnownTable::make("x", 'a', 8, 20'000, true, 1);
  const Settings settings = {{"address", cluster.addresses()}, {"partitions", "24"}};
  Handle w;
  REQUIRE(w.open({{"address", cluster.addresses()}, {"partitions", "24"}, {"write_replicas", "1"}}, {&t},
                 DPI_STORE_WRITE) == 0);
  REQUIRE(w.write(0, t, 0, 10'000, 1) == 0);
  cluster[2].kill();
  // Its replica has none of its own: so many replicas cannot be waited for any more.
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE_MESSAGE(w.write(0, t, 10'000, 20'000, 2) == 0, w.message());
  REQUIRE_MESSAGE(w.complete(0) == 0, w.message());
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&t}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, t, t.keys) == "");
}

TEST_CASE("a replica that is behind is not believed") {
  if (!redis_installed()) return;
  RedisCluster cluster(3, 1);
  const auto t = KnownTable::make("x", 'a', 8, 5'000, true, 1);
  load({{"address", cluster.addresses()}, {"partitions", "24"}, {"write_replicas", "1"}}, t);
  cluster.wait_until_replicas_are_told();
  Handle h;
  REQUIRE(h.open({{"address", cluster.addresses()}, {"replicas", "on"}}, {&t}, DPI_STORE_READ) == 0);
  // A replica without its data, as before its first synchronisation.
  for (size_t i = 3; i < 6; ++i) {
    REQUIRE(cluster[i].ask({"CONFIG", "SET", "replica-read-only", "no"}) == "OK");
    REQUIRE(cluster[i].ask({"FLUSHALL"}) == "OK");
  }
  for (int i = 0; i < 5; ++i) CHECK(compare(h, 0, t, some_keys(t, 2000, 5)) == "");
}

}  // namespace dpi::test::cluster_test
