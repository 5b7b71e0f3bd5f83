// One server: rows come back as they were written, through every part of a table's life.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <thread>

#include "base/status.hpp"
#include "store/redis/handle.hpp"
#include "store/redis/redis_server.hpp"
#include "store/redis/table.hpp"

namespace dpi::test::alone_test {
namespace {

int32_t code(Code c) { return static_cast<int32_t>(c); }

std::string partition_key(const KnownTable& t, int64_t partition) {
  return redis::Table::make(t.described())->partition_key(partition);
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("rows of random tables come back bit by bit, absent keys as absent") {
  if (!redis_installed()) return;
  RedisServer server;
  std::mt19937_64 random(7);
  for (int i = 0; i < 8; ++i) {
    const int64_t rows = i == 0 ? 0 : static_cast<int64_t>(random() % 30'000);
    const auto dim = static_cast<int32_t>(1 + random() % 64);
    const auto t = KnownTable::make("t" + std::to_string(i), static_cast<char>('0' + i), dim, rows,
                                    i % 2 == 0, random());
    Settings settings = {{"address", server.address()}};
    Settings writing = settings;
    if (i % 3 == 0) writing.push_back({"partitions", std::to_string(1 + random() % 40)});
    load(writing, t);
    Handle h;
    REQUIRE_MESSAGE(h.open(settings, {&t}, DPI_STORE_READ) == 0, h.message());
    for (const size_t n : {0, 1, 2, 63, 64, 65, 1000, 1001, 5000}) {
      CAPTURE(n);
      CHECK(compare(h, 0, t, some_keys(t, n, random())) == "");
    }
    std::vector<int64_t> odd(t.keys.begin(), t.keys.begin() + std::min<int64_t>(t.rows(), 9));
    CHECK(compare(h, 0, t, odd) == "");
    CHECK(compare(h, 0, t, {INT64_MIN, -1, INT64_MAX}) == "");
  }
}

TEST_CASE("tables of one name or one content are apart; a handle has several") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}};
  const auto a = KnownTable::make("x", 'a', 4, 100, true, 1), b = KnownTable::make("x", 'b', 4, 100, true, 2),
             c = KnownTable::make("y{", 'a', 4, 100, true, 3);
  for (const auto* t : {&a, &b, &c}) load(settings, *t);
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&a, &b, &c}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, a, a.keys) == "");
  CHECK(compare(h, 1, b, b.keys) == "");
  CHECK(compare(h, 2, c, c.keys) == "");
  Handle w;
  REQUIRE(w.open(settings, {&b}, DPI_STORE_WRITE) == 0);
  REQUIRE(w.drop(0) == 0);
  CHECK(compare(h, 0, a, a.keys) == "");
  const Fetched gone = h.fetch(1, b.keys, b.row_bytes());
  CHECK(gone.code == code(Code::kIo));
  CHECK_MESSAGE(says(gone.message, "table 'x'"), gone.message);
  CHECK_MESSAGE(says(gone.message, server.address()), gone.message);
  CHECK_MESSAGE(says(gone.message, "dpi store load"), gone.message);
  CHECK(server.ask({"KEYS", "*bbbb*"}) == "");
}

TEST_CASE("opening names what is missing, unfinished or different") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "5"}};
  const auto t = KnownTable::make("x", 'a', 4, 1000, true, 1);
  Handle h, w;
  CHECK(h.open(settings, {&t}, DPI_STORE_READ) == code(Code::kNotFound));
  CHECK_MESSAGE(says(h.message(), "...; load it with `dpi store load`. If updates"), h.message());
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE(w.write(0, t, 0, 600, 77) == 0);
  CHECK(h.open(settings, {&t}, DPI_STORE_READ) == code(Code::kNotFound));
  CHECK_MESSAGE(says(h.message(), "600 of 1000 rows"), h.message());
  CHECK(w.complete(0) == code(Code::kInvalidArgument));
  CHECK_MESSAGE(says(w.message(), "600 of 1000 rows"), w.message());
  REQUIRE(w.write(0, t, 600, 1000, 78) == 0);
  CHECK(w.write(0, t, 0, 1, 78) == code(Code::kInvalidArgument));  // more than it has
  REQUIRE(w.complete(0) == 0);
  CHECK(w.complete(0) == 0);  // again
  CHECK(w.write(0, t, 0, 0, 78) == code(Code::kInvalidArgument));
  dpi_store_stat stat{};
  REQUIRE(w.stat(0, &stat) == 0);
  CHECK(stat.rows == 1000);
  CHECK(stat.complete == 1);
  CHECK(stat.digest == 78);
  CHECK(h.open(settings, {&t}, DPI_STORE_READ) == 0);
  auto other = t;
  other.dim = 8;
  CHECK(h.open(settings, {&other}, DPI_STORE_READ) == code(Code::kBadModel));
  CHECK_MESSAGE(says(h.message(), "its dim in Redis is '4', expected '8'"), h.message());
  other = t;
  other.keyed = false;
  CHECK(h.open(settings, {&other}, DPI_STORE_READ) == code(Code::kBadModel));
  REQUIRE(server.ask({"UNLINK", partition_key(t, 3)}) == "1");
  CHECK(h.open(settings, {&t}, DPI_STORE_READ) == code(Code::kIo));
  CHECK_MESSAGE(says(h.message(), "partition 3"), h.message());
  CHECK(h.open({{"address", "127.0.0.1:1"}}, {&t}, DPI_STORE_READ) == code(Code::kIo));
  CHECK_MESSAGE(says(h.message(), "127.0.0.1:1: cannot connect"), h.message());
}

TEST_CASE("a writer that was killed goes on where the record says, and writing rows twice changes nothing") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "7"}};
  const auto t = KnownTable::make("x", 'a', 16, 9000, true, 5);
  dpi_store_stat stat{};
  {
    Handle w;
    REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
    REQUIRE(w.stat(0, &stat) == 0);
    CHECK(stat.rows == 0);
    REQUIRE(w.write(0, t, 0, 4000, 11) == 0);
    REQUIRE(w.write(0, t, 4000, 7000, 12) == 0);
  }
  // As if it had been killed between the rows and the record.
  const std::string record = redis::Table::make(t.described())->record_key();
  REQUIRE(server.ask({"HSET", record, "written", "4000", "digest", "b"}) == "0");
  Handle w;
  REQUIRE(w.open({{"address", server.address()}, {"partitions", "9"}}, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE(w.stat(0, &stat) == 0);
  CHECK(stat.rows == 4000);
  CHECK(stat.digest == 11);
  CHECK(stat.complete == 0);
  REQUIRE(w.write(0, t, 4000, 9000, 13) == 0);
  // As if it had been killed among the seals.
  REQUIRE(server.ask({"HSET", partition_key(t, 2), "sealed", "dpi1 7"}) == "1");
  REQUIRE_MESSAGE(w.complete(0) == 0, w.message());
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&t}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, t, t.keys) == "");
}

TEST_CASE("rows that Redis has lost are missed when the table is completed") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "4"}};
  const auto t = KnownTable::make("x", 'a', 4, 500, true, 5);
  Handle w;
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE(w.write(0, t, 0, 500, 1) == 0);
  REQUIRE(server.ask({"UNLINK", partition_key(t, 1)}) == "1");
  CHECK(w.complete(0) == code(Code::kIo));
  CHECK_MESSAGE(says(w.message(), "of the 500 rows that were written"), w.message());
  REQUIRE(w.drop(0) == 0);
  CHECK(server.ask({"DBSIZE"}) == "0");
  CHECK(w.drop(0) == 0);  // again
}

TEST_CASE("a value of another length or kind is an error by name, never a row") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "2"}};
  for (const bool keyed : {true, false}) {
    const auto t = KnownTable::make("x", keyed ? 'a' : 'b', 4, 300, keyed, 5);
    load(settings, t);
    Handle h;
    REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
    auto table = redis::Table::make(t.described());
    table->set_partitions(2);
    const int64_t key = t.keys[100];
    const std::string partition = partition_key(t, table->partition_of(key));
    const std::string field(redis::Field(key).view());
    for (const std::string& wrong : {std::string(15, 'x'), std::string(17, 'x'), std::string()}) {
      REQUIRE(server.ask({"HSET", partition, field, wrong}) == "0");
      const Fetched f = h.fetch(0, {key}, t.row_bytes());
      CHECK(f.code == code(Code::kBadModel));
      CHECK_MESSAGE(says(f.message, "a value of " + std::to_string(wrong.size()) + " bytes"), f.message);
    }
    REQUIRE(server.ask({"HDEL", partition, field}) == "1");
    CHECK(h.fetch(0, {key}, t.row_bytes()).code == (keyed ? 0 : code(Code::kIo)));
    REQUIRE(server.ask({"SET", partition, "a text"}) == "OK");
    const Fetched f = h.fetch(0, {key}, t.row_bytes());
    CHECK(f.code == code(Code::kBadModel));
    CHECK_MESSAGE(says(f.message, "WRONGTYPE"), f.message);
    CHECK_MESSAGE(says(f.message, "table 'x'"), f.message);
  }
}

TEST_CASE("a server that came back empty is an error, not a table without rows") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}};
  for (const bool keyed : {true, false}) {
    const auto t = KnownTable::make("x", 'a', 4, 300, keyed, 5);
    load(settings, t);
    Handle h;
    REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
    CHECK(compare(h, 0, t, t.keys) == "");
    server.kill();
    server.start();
    CHECK(h.fetch(0, {t.keys[0]}, t.row_bytes()).code == code(Code::kIo));
    load(settings, t);
    CHECK(compare(h, 0, t, t.keys) == "");
    REQUIRE(server.ask({"FLUSHALL"}) == "OK");
  }
}

TEST_CASE("another number of partitions under an open reader is noticed") {
  if (!redis_installed()) return;
  RedisServer server;
  const auto t = KnownTable::make("x", 'a', 4, 300, true, 5);
  load({{"address", server.address()}, {"partitions", "3"}}, t);
  Handle h, w;
  REQUIRE(h.open({{"address", server.address()}}, {&t}, DPI_STORE_READ) == 0);
  REQUIRE(w.open({{"address", server.address()}}, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE(w.drop(0) == 0);
  load({{"address", server.address()}, {"partitions", "8"}}, t);
  CHECK(h.fetch(0, t.keys, t.row_bytes()).code == code(Code::kIo));
}

TEST_CASE("many threads fetch at once, over fewer connections than there are threads") {
  if (!redis_installed()) return;
  RedisServer server;
  const auto t = KnownTable::make("x", 'a', 16, 20'000, true, 5);
  load({{"address", server.address()}, {"partitions", "10"}}, t);
  Handle h;
  REQUIRE(h.open({{"address", server.address()}, {"connections", "3"}}, {&t}, DPI_STORE_READ) == 0);
  std::vector<std::string> wrong(8);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t round = 0; round < 30 && wrong[i].empty(); ++round)
        wrong[i] = compare(h, 0, t, some_keys(t, 1 + (i * 37 + round * 101) % 900, i * 1000 + round),
                           30'000'000'000);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& w : wrong) CHECK(w == "");
  const std::string clients = server.ask({"INFO", "clients"});
  CHECK_MESSAGE(says(clients, "connected_clients:4"), clients);  // three of ours, one that asks
}

TEST_CASE("a password: right, wrong, missing, and of a user") {
  if (!redis_installed()) return;
  RedisServer server(false, {"--requirepass", "right one", "--user", "writer", "on", ">pass", "~*", "+@all"});
  const auto t = KnownTable::make("x", 'a', 4, 100, true, 5);
  load({{"address", server.address()}, {"password", "right one"}}, t);
  Handle h;
  CHECK(h.open({{"address", server.address()}, {"user", "writer"}, {"password", "pass"}}, {&t},
               DPI_STORE_READ) == 0);
  CHECK(compare(h, 0, t, t.keys) == "");
  CHECK(h.open({{"address", server.address()}, {"password", "s3cret"}}, {&t}, DPI_STORE_READ) ==
        code(Code::kIo));
  CHECK_MESSAGE(says(h.message(), "WRONGPASS"), h.message());
  CHECK_FALSE(says(h.message(), "s3cret"));
  CHECK(h.open({{"address", server.address()}}, {&t}, DPI_STORE_READ) == code(Code::kIo));
  CHECK_MESSAGE(says(h.message(), "'password'"), h.message());
}

}  // namespace dpi::test::alone_test
