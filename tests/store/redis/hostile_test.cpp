// A server that answers as none should: a status in time, bounded memory, and the next fetch is right again.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <random>

#include "base/clock.hpp"
#include "base/status.hpp"
#include "store/redis/connection.hpp"
#include "store/redis/fake_server.hpp"
#include "store/redis/handle.hpp"
#include "store/redis/protocol.hpp"
#include "store/redis/resolver.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::hostile_test {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kInTime =
    2000 * kMs;  // of deadlines of 100 to 200 ms, on a machine that does other work too
int32_t code(Code c) { return static_cast<int32_t>(c); }

std::string nested(int depth) {
  std::string s;
  for (int i = 0; i < depth; ++i) s += "*1\r\n";
  return s + "$1\r\nx\r\n";
}

// What no command of ours is answered with, whatever it is.
std::vector<Answer> nonsense() {
  std::vector<Answer> all;
  for (const char* bytes :
       {"*2147483647\r\n$1\r\nx\r\n", "*99999999999\r\n", "*-2\r\n", "$2147483647\r\nxxx", "$-5\r\n",
        "$99999999999999999999\r\n", "HTTP/1.1 200 OK\r\n\r\n", "\r\n", "$abc\r\n",
        ":99999999999999999999\r\n", "*3\r\n-ERR inside\r\n-ERR\r\n-ERR\r\n", "-\r\n", "-ERR \x1b[2J\r\n",
        "-MOVED\r\n", "-MOVED 1 nowhere\r\n", "-ASK 16384 127.0.0.1:1\r\n", "%1\r\n+a\r\n+b\r\n", "_\r\n"})
    all.push_back({bytes});
  all.push_back({std::string("\0\0\0\0", 4)});
  for (const int depth : {2, 7, 8, 9, 1000}) all.push_back({nested(depth)});
  all.push_back({"", true});
  all.push_back({"*3\r\n$16\r\n01234", true});
  all.push_back({"+", false, 0, 0, 64 << 20});  // a line without an end
  all.push_back({"-", false, 0, 0, 64 << 20});
  all.push_back({"$1000000000\r\nx", false, 0, 0, 256 << 20});  // a text of a gigabyte
  all.push_back({"*2000000000\r\n" + nested(6), false, 0, 0, 64 << 20});
  return all;
}

std::vector<Answer> not_rows() {
  auto all = nonsense();
  for (const char* bytes : {"+OK\r\n", ":1\r\n", "$5\r\nhello\r\n", "*-1\r\n", "$-1\r\n", "*0\r\n",
                            "*1\r\n$-1\r\n", "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n",
                            "*4\r\n*1\r\n+x\r\n$-1\r\n$-1\r\n$-1\r\n", "*3\r\n$-1\r\n$-1\r\n$-1\r\n"})
    all.push_back({bytes});
  return all;
}

// The most that this process has had.
int64_t peak_memory_kb() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

Answers with(const KnownTable& t, const std::string& command, const Answer& wrong) {
  return [good = good_answers(t), command, wrong](const Command& c) {
    return c[0] == command ? wrong : good(c);
  };
}

}  // namespace

TEST_CASE("answers to HMGET that are none: a status in time, and the next fetch is right") {
  const auto t = KnownTable::make("x", 'a', 4, 50, true, 1);
  const std::vector<int64_t> keys(t.keys.begin(), t.keys.begin() + 3);
  FakeServer server(good_answers(t));
  Handle h;
  REQUIRE_MESSAGE(h.open({{"address", server.address()}}, {&t}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, t, keys) == "");
  const int64_t before = peak_memory_kb();
  const auto answers = not_rows();
  for (size_t i = 0; i < answers.size(); ++i) {
    CAPTURE(i);
    CAPTURE(answers[i].bytes.substr(0, 40));
    server.set(with(t, "HMGET", answers[i]));
    const uint64_t start = monotonic_ns();
    const Fetched f = h.fetch(0, keys, t.row_bytes(), 150 * kMs);
    CHECK(f.code != 0);
    CHECK(f.message.find(server.address()) != std::string::npos);
    CHECK(f.message.find('\x1b') == std::string::npos);
    if (answers[i].bytes.starts_with("HTTP/"))  // as a proxy says of an address that leads nowhere
      CHECK_MESSAGE(f.message.find("is the address that of a Redis server?") != std::string::npos, f.message);
    CHECK(monotonic_ns() - start < kInTime);
    server.set(good_answers(t));
    CHECK(compare(h, 0, t, keys, 2000 * kMs) == "");
  }
  if (!DPI_UNDER_TSAN && !DPI_UNDER_ASAN) CHECK(peak_memory_kb() - before < 32 << 10);
}

TEST_CASE("answers at open that are none") {
  const auto t = KnownTable::make("x", 'a', 4, 50, true, 1);
  FakeServer server(good_answers(t));
  const Settings settings = {
      {"address", server.address()}, {"timeout_ms", "100"}, {"connect_timeout_ms", "100"}, {"password", "p"}};
  for (const char* command : {"AUTH", "CLUSTER", "HGETALL", "HLEN", "HMGET"}) {
    const auto answers = nonsense();
    for (size_t i = 0; i < answers.size(); ++i) {
      const std::string shown =
          std::string(command) + " " + std::to_string(i) + " " + answers[i].bytes.substr(0, 40);
      server.set(with(t, command, answers[i]));
      const uint64_t start = monotonic_ns();
      Handle h;
      CHECK_MESSAGE(h.open(settings, {&t}, DPI_STORE_READ) != 0, shown);
      CHECK_MESSAGE(h.message() != "", shown);
      CHECK_MESSAGE(monotonic_ns() - start < 3000 * kMs, shown);
    }
  }
  for (const char* slots :
       {"*0\r\n", "*1\r\n*0\r\n", "*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:9\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\na\r\n:0\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n:1\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16383\r\n*1\r\n$1\r\na\r\n"}) {
    server.set(with(t, "CLUSTER", {slots}));
    Handle h;
    CHECK_MESSAGE(h.open(settings, {&t}, DPI_STORE_READ) == code(Code::kIo), slots);
    CHECK_MESSAGE(h.message().find(server.address()) != std::string::npos, h.message());
  }
}

TEST_CASE("an answer that is broken off at any byte, or has any byte changed") {
  const auto t = KnownTable::make("x", 'a', 4, 50, true, 1);
  const std::vector<int64_t> keys(t.keys.begin(), t.keys.begin() + 3);
  FakeServer server(good_answers(t));
  Handle h;
  REQUIRE(h.open({{"address", server.address()}}, {&t}, DPI_STORE_READ) == 0);
  std::string whole;
  server.set([&, good = good_answers(t)](const Command& c) {
    whole = good(c).bytes;
    return Answer{whole};
  });
  REQUIRE(compare(h, 0, t, keys) == "");
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    server.set(with(t, "HMGET", {whole.substr(0, cut), true}));
    const Fetched f = h.fetch(0, keys, t.row_bytes(), 500 * kMs);
    CHECK_MESSAGE(f.code == code(Code::kIo), cut);
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    std::string changed = whole;
    changed[random() % changed.size()] = "$*+-:\r\n0123456789x"[random() % 18];
    server.set(with(t, "HMGET", {changed, true}));  // closed, so that nothing waits for what is lacking
    const Fetched f = h.fetch(0, keys, t.row_bytes(), 500 * kMs);
    CHECK(f.code != code(Code::kTimeout));
  }
  server.set(good_answers(t));
  CHECK(compare(h, 0, t, keys) == "");
}

TEST_CASE("drops, and answers that come after the deadline, which the next fetch must not take for its own") {
  const auto t = KnownTable::make("x", 'a', 4, 50, true, 1);
  const auto good = good_answers(t);
  FakeServer server(good);
  Handle h;
  REQUIRE(h.open({{"address", server.address()}}, {&t}, DPI_STORE_READ) == 0);
  server.set([&](const Command& c) {
    Answer a = good(c);
    a.drop_ms = 5;
    return a;
  });
  uint64_t start = monotonic_ns();
  CHECK(h.fetch(0, {t.keys[0], t.keys[1]}, t.row_bytes(), 100 * kMs).code == code(Code::kTimeout));
  CHECK(monotonic_ns() - start < kInTime);
  server.set([&](const Command& c) {
    Answer a = good(c);
    a.delay_ms = 150;
    return a;
  });
  for (int i = 0; i < 3; ++i) {
    CHECK(h.fetch(0, {t.keys[0]}, t.row_bytes(), 100 * kMs).code == code(Code::kTimeout));
    CHECK(compare(h, 0, t, {t.keys[1]}, 1000 * kMs) == "");
  }
  // One answer more than was asked for.
  server.set([&](const Command& c) {
    Answer a = good(c);
    a.bytes += a.bytes;
    return a;
  });
  for (const int64_t key : {t.keys[0], t.keys[1], t.keys[2]})
    CHECK(compare(h, 0, t, {key}, 1000 * kMs) == "");
  server.set([&](const Command& c) {
    Answer a = good(c);
    a.bytes += ":1\r\n";
    a.drop_ms = c[0] == "HMGET" ? 1 : 0;
    return a;
  });
  (void)h.fetch(0, {t.keys[0]}, t.row_bytes(), 1000 * kMs);
  server.set(good);
  CHECK(compare(h, 0, t, {t.keys[1]}, 1000 * kMs) == "");
}

TEST_CASE("redirections without an end, and servers that are never ready, last until the deadline") {
  const auto t = KnownTable::make("x", 'a', 4, 50, true, 1);
  FakeServer server(good_answers(t));
  Handle h;
  REQUIRE(h.open({{"address", server.address()}}, {&t}, DPI_STORE_READ) == 0);
  for (const std::string& error :
       {"MOVED 1 " + server.address(), "ASK 1 " + server.address(), std::string("TRYAGAIN x"),
        std::string("CLUSTERDOWN x"), std::string("LOADING x")}) {
    int asked = 0;
    server.set([&, good = good_answers(t)](const Command& c) {
      if (c[0] != "HMGET") return good(c);
      ++asked;
      return Answer{"-" + error + "\r\n"};
    });
    const uint64_t start = monotonic_ns();
    const Fetched f = h.fetch(0, {t.keys[0]}, t.row_bytes(), 200 * kMs);
    CHECK_MESSAGE(f.code == code(Code::kTimeout), f.message);
    CHECK_MESSAGE(f.message.find(server.address()) != std::string::npos, f.message);
    CHECK(monotonic_ns() - start < kInTime);
    server.set(good_answers(t));
    CHECK(asked > 2);
    CHECK(asked < 40);  // with pauses
  }
}

TEST_CASE("a server that has closed politely is written to: no SIGPIPE in the host") {
  struct sigaction action{};
  ::sigaction(SIGPIPE, nullptr, &action);
  const bool ends_the_process = action.sa_handler == SIG_DFL;
  REQUIRE(ends_the_process);
  FakeServer server([](const dpi::test::Command&) { return Answer{"+OK\r\n", true}; });
  redis::Resolver resolver;
  const uint64_t deadline = monotonic_ns() + 5000 * kMs;
  Status stale;
  const auto to = resolver.find({"127.0.0.1", server.port()}, deadline, &stale);
  auto c = redis::Connection::open(*to, server.address(), deadline);
  REQUIRE_MESSAGE(c.ok(), c.status().message());
  redis::TreeSink ok(redis::Item::kStatus);
  redis::Connection* const one[] = {c->get()};
  one[0]->send(redis::command({"PING"}), &ok);
  redis::converse(one, deadline);
  REQUIRE(one[0]->answered() == 1);
  while (one[0]->fresh()) ::usleep(1000);  // until its end has come
  one[0]->forget();
  one[0]->send(redis::command({"SET", "x", std::string(32 << 20, 'x')}), &ok);
  redis::converse(one, deadline);
  CHECK(one[0]->failure().code() == Code::kIo);
}

TEST_CASE("a server that goes while it is written to is waited for, for as long as writing may take") {
  const auto t = KnownTable::make("x", 'a', 64, 20'000, true, 1);
  FakeServer server([](const Command& c) -> Answer {
    if (c[0] == "CLUSTER") return {"-ERR This instance has cluster support disabled\r\n"};
    if (c[0] == "HGETALL") return {"*0\r\n"};
    if (c[0] == "HSET" && c[2] == "name") return {":11\r\n"};
    return {"", true};
  });
  Handle w;
  REQUIRE(w.open({{"address", server.address()}, {"write_timeout_ms", "500"}}, {&t}, DPI_STORE_WRITE) == 0);
  CHECK(w.write(0, t, 0, t.rows()) == code(Code::kTimeout));
  CHECK_MESSAGE(w.message().find(server.address()) != std::string::npos, w.message());
}

}  // namespace dpi::test::hostile_test
