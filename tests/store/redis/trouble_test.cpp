// One server that is down, goes, comes back, hangs; and a writer that is killed.
#include <netdb.h>

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "store/redis/handle.hpp"
#include "store/redis/redis_server.hpp"
#include "store/redis/table.hpp"
#include "support/sleep.hpp"

namespace dpi::test::trouble_test {
namespace {

constexpr uint64_t kMs = 1'000'000;
int32_t code(Code c) { return static_cast<int32_t>(c); }

// The whole table in steps, from where the record says.
int32_t write_on(Handle& w, const KnownTable& t, int64_t step) {
  dpi_store_stat stat{};
  int32_t c = w.stat(0, &stat);
  if (stat.digest != static_cast<uint64_t>(stat.rows)) return -1;  // as written below
  for (int64_t at = stat.rows; c == 0 && at < t.rows(); at += step) {
    const int64_t end = std::min(at + step, t.rows());
    c = w.write(0, t, at, end, static_cast<uint64_t>(end));
  }
  return c == 0 ? w.complete(0) : c;
}

}  // namespace

TEST_CASE("down at the start: an error at once that names the address; then up") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}};
  const auto t = KnownTable::make("x", 'a', 4, 100, true, 1);
  server.kill();
  Handle h;
  const uint64_t start = monotonic_ns();
  CHECK(h.open(settings, {&t}, DPI_STORE_READ) == code(Code::kIo));
  CHECK(monotonic_ns() - start < 1000 * kMs);
  CHECK_MESSAGE(h.message().find(server.address()) != std::string::npos, h.message());
  server.start();
  load({{"address", "127.0.0.1:1," + server.address()}}, t);  // the first that answers
  CHECK(h.open(settings, {&t}, DPI_STORE_READ) == 0);
}

TEST_CASE(
    "down in the middle and back: errors at once while it is down, right rows from the first fetch after") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}};
  const auto t = KnownTable::make("x", 'a', 4, 1000, true, 1);
  load(settings, t);
  Handle h;
  REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
  for (int i = 0; i < 3; ++i) {
    CHECK(compare(h, 0, t, t.keys) == "");
    server.kill();
    const uint64_t start = monotonic_ns();
    const Fetched f = h.fetch(0, t.keys, t.row_bytes(), 2000 * kMs);
    CHECK_MESSAGE(f.code == code(Code::kIo), f.message);
    CHECK(monotonic_ns() - start < 1000 * kMs);
    server.start();
    load(settings, t);
    const uint64_t back = monotonic_ns();
    CHECK(compare(h, 0, t, t.keys) == "");
    MESSAGE("back: right in ", static_cast<double>(monotonic_ns() - back) * 1e-9, " s");
  }
}

TEST_CASE("a server that hangs costs each fetch its deadline and not more") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"timeout_ms", "150"}};
  const auto t = KnownTable::make("x", 'a', 4, 1000, true, 1);
  load(settings, t);
  Handle h;
  REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
  server.pause();
  for (const uint64_t timeout : {50 * kMs, uint64_t{0}}) {  // 0: timeout_ms
    std::vector<std::thread> threads;
    std::atomic<int> late{0};
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const uint64_t start = monotonic_ns();
        const Fetched f = h.fetch(0, t.keys, t.row_bytes(), timeout);
        if (f.code != code(Code::kTimeout) || monotonic_ns() - start > 2000 * kMs) ++late;
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(late == 0);
  }
  server.resume();
  CHECK(compare(h, 0, t, t.keys, 5000 * kMs) == "");
  // The server's own way to hang; asked by a child of nobody, since the asker hangs too.
  std::thread sleeper([&] { server.ask({"DEBUG", "SLEEP", "0.5"}); });
  sleep_ms(100);
  CHECK(h.fetch(0, t.keys, t.row_bytes(), 100 * kMs).code == code(Code::kTimeout));
  CHECK(compare(h, 0, t, t.keys, 5000 * kMs) == "");
  sleeper.join();
}

TEST_CASE("a writer that is killed at any moment, and the next one, leave the table that one writer writes") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "6"}};
  const auto t = KnownTable::make("x", 'a', 16, 60'000, true, 1);
  int killed = 0;
  for (const int ms : {1, 4, 9, 15, 25, 40}) {
    const pid_t child = ::fork();
    if (child == 0) {
      Handle w;
      int32_t c = w.open(settings, {&t}, DPI_STORE_WRITE);
      if (c == 0) c = write_on(w, t, 700);
      ::_exit(c == 0 ? 0 : 1);
    }
    sleep_ms(ms);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    CHECK_FALSE((WIFEXITED(status) && WEXITSTATUS(status) != 0));
  }
  CHECK(killed > 2);
  Handle w;
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE_MESSAGE(write_on(w, t, 700) == 0, w.message());
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&t}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, t, t.keys) == "");
  // A drop that is killed half way is done by the next.
  auto table = redis::Table::make(t.described());
  REQUIRE(server.ask({"HSET", table->record_key(), "complete", "0"}) == "0");
  REQUIRE(server.ask({"UNLINK", table->partition_key(2)}) == "1");
  CHECK(h.open(settings, {&t}, DPI_STORE_READ) == code(Code::kNotFound));
  REQUIRE(w.drop(0) == 0);
  CHECK(server.ask({"DBSIZE"}) == "0");
}

TEST_CASE("a name is looked up on a thread of the plugin's own, which has a name and goes with the handle") {
  addrinfo* found = nullptr;
  if (getaddrinfo("localhost", nullptr, nullptr, &found) != 0) {
    MESSAGE("skipped: this machine does not know the name localhost (no /etc/hosts)");
    return;
  }
  freeaddrinfo(found);
  if (!redis_installed()) return;
  RedisServer server;
  const auto t = KnownTable::make("x", 'a', 4, 100, true, 1);
  const auto threads = [] {
    std::string names;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream comm(task.path() / "comm");
      std::string name;
      std::getline(comm, name);
      names += name + " ";
    }
    return names;
  };
  const Settings settings = {{"address", "localhost:" + std::to_string(server.port())}};
  load(settings, t);
  {
    Handle h;
    REQUIRE_MESSAGE(h.open(settings, {&t}, DPI_STORE_READ) == 0, h.message());
    CHECK(compare(h, 0, t, t.keys) == "");
    CHECK(threads().find("dpi-redis-names") != std::string::npos);
  }
  CHECK(threads().find("dpi-redis-names") == std::string::npos);
  Handle h;
  CHECK(h.open({{"address", "no-such-host.invalid:1"}}, {&t}, DPI_STORE_READ) != 0);
  CHECK_MESSAGE(h.message().find("no-such-host.invalid:1") != std::string::npos, h.message());
}

}  // namespace dpi::test::trouble_test
