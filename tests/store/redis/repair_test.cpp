// Rows that Redis has lost: counted, named, and written again while others read. Rows of updates are never
// older afterwards.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "store/redis/losses.hpp"

namespace dpi::test::repair_test {

TEST_CASE("lost partitions are counted and named, and written again while an open reader goes on") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "16"}};
  for (const bool keyed : {true, false}) {
    CAPTURE(keyed);
    const auto t = KnownTable::make("x", keyed ? 'a' : 'b', 16, 20'000, keyed, 5);
    load(settings, t);
    CHECK(std::string(count(settings, t).what).empty());
    CHECK(count(settings, t).rows == 20'000);
    Handle h;
    REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
    const std::vector<int64_t> third = keys_of(t, 16, 3), others = keys_of(t, 16, 4);
    lose(server, t, 16, 3);
    lose(server, t, 16, 11);
    const dpi_store_loss loss = count(settings, t);
    CHECK(loss.missing_parts == 2);
    CHECK(loss.missing_rows == static_cast<int64_t>(third.size() + keys_of(t, 16, 11).size()));
    CHECK(loss.rows == 20'000 - loss.missing_rows);
    CHECK(std::string(loss.what) == "partitions 3, 11 of 16");
    const Fetched lost = h.fetch(0, third, t.row_bytes());
    CHECK(lost.code == code(Code::kIo));
    CHECK_MESSAGE(says(lost.message, "partition 3 is gone"), lost.message);
    CHECK_MESSAGE(says(lost.message, "`dpi store load` of the bundle with that content writes them again"),
                  lost.message);

    std::atomic<bool> stop{false};
    std::atomic<int> reads{0};
    std::string wrong;
    std::thread reader([&] {
      do {
        wrong = compare(h, 0, t, others, 30'000'000'000);
        ++reads;
      } while (!stop && wrong.empty());
    });
    Handle w;
    REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
    REQUIRE_MESSAGE(w.begin_repair(0) == 0, w.message());
    REQUIRE(w.count_keys(0, t) == 0);
    const int64_t before = server.calls("hset");
    REQUIRE(w.repair(0, t, 0, t.rows() / 2) == 0);
    const Fetched half = h.fetch(0, third, t.row_bytes());
    CHECK(half.code != 0);  // some are there, and that others are not there is not believed
    const int64_t there = t.keys[static_cast<size_t>(
        std::distance(t.keys.begin(), std::find(t.keys.begin(), t.keys.end(), third.front())))];
    CHECK(compare(h, 0, t, {there}) == "");  // a row that is there is served
    REQUIRE(w.repair(0, t, t.rows() / 2, t.rows()) == 0);
    REQUIRE_MESSAGE(w.end_repair(0) == 0, w.message());
    CHECK(server.calls("hset") - before < 12);  // of two partitions, not of sixteen
    stop = true;
    reader.join();
    CHECK(wrong == "");
    CHECK(reads > 0);
    CHECK(compare(h, 0, t, t.keys) == "");
    CHECK(compare(h, 0, t, some_keys(t, 500, 3)) == "");
    CHECK(std::string(count(settings, t).what).empty());
    Handle again;
    CHECK_MESSAGE(again.open(settings, {&t}, DPI_STORE_READ) == 0, again.message());
  }
}

TEST_CASE("a repair that is killed leaves what is there readable, and is begun anew") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "8"}, {"lease_ms", "100"}};
  const auto t = KnownTable::make("x", 'a', 8, 8000, true, 5);
  load(settings, t);
  Handle h;
  REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
  lose(server, t, 8, 2);
  {
    Handle w;
    REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
    REQUIRE(w.begin_repair(0) == 0);
    REQUIRE(w.count_keys(0, t) == 0);
    REQUIRE(w.repair(0, t, 0, 4000) == 0);
  }
  CHECK(compare(h, 0, t, keys_of(t, 8, 5)) == "");
  CHECK(count(settings, t).missing_parts == 1);
  Handle second;
  REQUIRE(second.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE_MESSAGE(second.mend(0, t) == 0, second.message());  // the lease of the first one has run out
  CHECK(compare(h, 0, t, t.keys) == "");
}

TEST_CASE("one writer: a repair and an update do not meet") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "4"}, {"lease_ms", "60000"}};
  const auto t = KnownTable::make("x", 'a', 8, 1000, true, 5);
  load(settings, t);
  const auto next = changed(t, 'b', {t.keys[0]}, {});
  lose(server, t, 4, 1);
  Handle w, u;
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE(w.begin_repair(0) == 0);
  Settings quick = settings;
  quick.back().second = "50";
  REQUIRE(u.open(quick, {&t}, DPI_STORE_UPDATE) == 0);
  int64_t done = 0;
  CHECK(u.begin_update(0, next, 7, &done) == code(Code::kIo));
  CHECK_MESSAGE(says(u.message(), "one writer at a time"), u.message());
  REQUIRE(w.count_keys(0, t) == 0);
  REQUIRE(w.repair(0, t, 0, t.rows()) == 0);
  REQUIRE(w.end_repair(0) == 0);
  CHECK_MESSAGE(u.begin_update(0, next, 7, &done) == 0, u.message());
}

TEST_CASE("rows of an update come back as those of the update, and no older ones") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "4"}, {"lease_ms", "100"}};
  const auto t = KnownTable::make("x", 'a', 8, 2000, true, 5);
  load(settings, t);
  Handle old;  // opened before the update
  REQUIRE(old.open(settings, {&t}, DPI_STORE_READ) == 0);
  const std::vector<int64_t> in_lost = keys_of(t, 4, 1);
  const std::vector<int64_t> rows(in_lost.begin(), in_lost.begin() + 50);
  const std::vector<int64_t> gone(in_lost.begin() + 50, in_lost.begin() + 60);
  const auto next = changed(t, 'b', rows, gone);
  update(settings, t, next, rows, gone);
  lose(server, t, 4, 1);
  Handle w;
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  CHECK(w.begin_repair(0) == code(Code::kInvalidArgument));
  CHECK_MESSAGE(says(w.message(), "has become bbbbbbbbbbbb..."), w.message());
  REQUIRE(w.open(settings, {&next}, DPI_STORE_WRITE) == 0);
  REQUIRE_MESSAGE(w.mend(0, next) == 0, w.message());
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&next}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, next, t.keys) == "");  // with the keys that are gone
  // Of that partition nobody knows which rows the old reader may have.
  for (const int64_t key : {rows[0], in_lost[100], gone[0]}) {
    const Fetched f = old.fetch(0, {key}, t.row_bytes());
    CHECK(f.code == code(Code::kBadModel));
    CHECK_MESSAGE(says(f.message, "of update 1"), f.message);
  }
  CHECK(compare(old, 0, t, keys_of(t, 4, 2)) == "");
  // The next update finds all as it was.
  const auto third = changed(next, 'c', {rows[0], t.keys[1]}, {});
  update(settings, next, third, {rows[0], t.keys[1]}, {});
  REQUIRE_MESSAGE(h.open(settings, {&third}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, third, t.keys) == "");
}

TEST_CASE("a partition that is lost amid an update is repaired, and the update does all its changes again") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "4"}, {"lease_ms", "100"}};
  const auto t = KnownTable::make("x", 'a', 8, 2000, true, 5);
  load(settings, t);
  const std::vector<int64_t> rows = t.keys;
  const auto next = changed(t, 'b', rows, {});
  update(settings, t, next, rows, {}, false);  // killed before its end
  lose(server, t, 4, 1);
  Handle u;
  int64_t done = 0;
  REQUIRE(u.open(settings, {&t}, DPI_STORE_UPDATE) == 0);
  CHECK(u.begin_update(0, next, 7, &done) != 0);
  CHECK_MESSAGE(says(u.message(), "a partition is gone"), u.message());
  CHECK_MESSAGE(says(u.message(), "then give the delta again"), u.message());
  Handle w;
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE_MESSAGE(w.mend(0, t) == 0, w.message());
  update(settings, t, next, rows, {});  // which begins at 0
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&next}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, next, t.keys) == "");
}

TEST_CASE("rows that are missing in a partition which says it is whole") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "4"}};
  const auto t = KnownTable::make("x", 'a', 8, 2000, true, 5);
  load(settings, t);
  const std::string partition = table_of(t, 4).partition_key(2);
  const int64_t key = keys_of(t, 4, 2)[7];
  REQUIRE(server.ask({"HDEL", partition, std::string(redis::Field(key).view())}) == "1");
  CHECK(count(settings, t).missing_rows == 1);
  CHECK(std::string(count(settings, t).what) == "1 rows");
  Handle w, h;
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE_MESSAGE(w.mend(0, t) == 0, w.message());
  REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
  CHECK(compare(h, 0, t, t.keys) == "");
  // One more than the bundle has is nobody's to take away.
  REQUIRE(server.ask({"HSET", partition, "12345678", "row"}) == "1");
  CHECK(w.mend(0, t) == code(Code::kIo));
  CHECK_MESSAGE(says(w.message(), "the bundle has"), w.message());
  CHECK(count(settings, t).missing_parts == 0);  // and its seal is still there
}

TEST_CASE("the record alone is lost: what is there is found by its seals") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings made = {{"address", server.address()}, {"partitions", "5"}};
  const Settings settings = {{"address", server.address()}};
  const auto t = KnownTable::make("x", 'a', 8, 2000, true, 5);
  load(made, t);
  Handle h;
  REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
  REQUIRE(server.ask({"DEL", table_of(t, 5).record_key()}) == "1");
  load(settings, t);
  CHECK(compare(h, 0, t, t.keys) == "");
  CHECK(server.ask({"DBSIZE"}) == "6");  // the same five
  // With updates nobody knows what they were.
  const auto next = changed(t, 'b', {t.keys[0]}, {});
  update(settings, t, next, {t.keys[0]}, {});
  REQUIRE(server.ask({"DEL", table_of(t, 5).record_key()}) == "1");
  for (const KnownTable* by : {&t, &next}) {
    Handle w;
    REQUIRE(w.open(settings, {by}, DPI_STORE_WRITE) == 0);
    CHECK(w.write(0, *by, 0, 1, 1) == code(Code::kIo));
    CHECK_MESSAGE(says(w.message(), "dpi store drop"), w.message());
    CHECK(w.drop(0) == 0);
  }
  CHECK(server.ask({"DBSIZE"}) == "0");
  load(settings, next);
  REQUIRE(h.open(settings, {&next}, DPI_STORE_READ) == 0);
  CHECK(compare(h, 0, next, next.keys) == "");
}

TEST_CASE(
    "the name of an updated table is lost alone: it is told, and the same update finds the table again") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "4"}};
  const auto t = KnownTable::make("x", 'a', 8, 2000, true, 5);
  load(settings, t);
  const std::vector<int64_t> rows(t.keys.begin(), t.keys.begin() + 40);
  const auto next = changed(t, 'b', rows, {});
  update(settings, t, next, rows, {});
  Handle running, h;
  REQUIRE(running.open(settings, {&next}, DPI_STORE_READ) == 0);
  REQUIRE(server.ask({"DEL", table_of(next, 4).record_key()}) == "1");
  CHECK(compare(running, 0, next, t.keys) == "");  // who has it open needs no name
  for (const int32_t mode : {DPI_STORE_READ, DPI_STORE_LOOK}) {
    CHECK(h.open(settings, {&next}, mode) == code(Code::kNotFound));
    CHECK_MESSAGE(says(h.message(), "is not there as content bbbbbbbbbbbb..."), h.message());
    CHECK_MESSAGE(says(h.message(), "`dpi store update` with the last delta finds it again"), h.message());
  }
  CHECK(h.open(settings, {&t}, DPI_STORE_READ) == code(Code::kNotFound));
  CHECK_MESSAGE(says(h.message(), "has become bbbbbbbbbbbb... by update 1"), h.message());

  Handle u;
  int64_t done = 0;
  REQUIRE(u.open(settings, {&t}, DPI_STORE_UPDATE) == 0);
  REQUIRE_MESSAGE(u.begin_update(0, next, 7, &done) == 0, u.message());
  CHECK(done == -1);
  REQUIRE_MESSAGE(h.open(settings, {&next}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, next, t.keys) == "");
  CHECK(server.ask({"DBSIZE"}) == "6");  // record, name, four partitions
  // Loading instead makes a second table of that content, and an update given again leaves it alone.
  REQUIRE(server.ask({"DEL", table_of(next, 4).record_key()}) == "1");
  load(settings, next);
  CHECK(u.begin_update(0, next, 7, &done) == 0);
  REQUIRE(h.open(settings, {&next}, DPI_STORE_READ) == 0);
  CHECK(compare(h, 0, next, t.keys) == "");
  CHECK(server.ask({"DBSIZE"}) == "10");
}

TEST_CASE("a server that evicts is named") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "16"}};
  const auto t = KnownTable::make("x", 'a', 64, 20'000, true, 5);
  load(settings, t);
  const int64_t used =
      std::stoll(server.ask({"MEMORY", "USAGE", table_of(t, 16).partition_key(0), "SAMPLES", "0"}));
  Handle h;
  REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
  REQUIRE(server.ask({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"}) == "OK");
  // Room for about half of the table.
  REQUIRE(server.ask({"CONFIG", "SET", "maxmemory", std::to_string(used * 8 + (2 << 20))}) == "OK");
  const std::string record = table_of(t, 16).record_key();
  for (int i = 0; i < 500 && server.ask({"EXISTS", record}) == "1" && count(settings, t).missing_parts == 0;
       ++i) {
  }
  if (server.ask({"EXISTS", record}) == "1") {
    const dpi_store_loss loss = count(settings, t);
    CHECK(loss.missing_parts > 0);
    CHECK_MESSAGE(says(loss.what, "evicts keys (maxmemory "), loss.what);
    CHECK_MESSAGE(says(loss.what, "allkeys-lru"), loss.what);
    Handle w;
    REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
    CHECK(w.mend(0, t) != 0);  // it cannot hold: told, not believed
  }
  const Fetched f = h.fetch(0, t.keys, t.row_bytes());
  CHECK(f.code != 0);
  REQUIRE(server.ask({"CONFIG", "SET", "maxmemory", "0"}) == "OK");
  Handle w;
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  if (server.ask({"EXISTS", record}) == "1") {
    REQUIRE_MESSAGE(w.mend(0, t) == 0, w.message());
  } else {
    load(settings, t);
  }
  CHECK(compare(h, 0, t, t.keys) == "");
}

TEST_CASE("a load that goes on after a loss writes what the part before has lost") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "4"}};
  const auto t = KnownTable::make("x", 'a', 8, 2000, true, 5);
  Handle w;
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE(w.write(0, t, 0, 1500, 1) == 0);
  lose(server, t, 4, 1);
  REQUIRE(w.write(0, t, 1500, 2000, 2) == 0);
  CHECK(w.complete(0) == code(Code::kIo));
  REQUIRE_MESSAGE(w.mend(0, t) == 0, w.message());
  REQUIRE_MESSAGE(w.complete(0) == 0, w.message());
  Handle h;
  REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
  CHECK(compare(h, 0, t, t.keys) == "");
}

TEST_CASE("a shard of a cluster that comes back empty") {
  if (!redis_installed()) return;
  RedisCluster cluster(3);
  const Settings settings = {{"address", cluster.addresses()}};
  const auto t = KnownTable::make("x", 'a', 8, 24'000, true, 5);
  load(settings, t);
  Handle h;
  REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
  // One that has partitions and not the record.
  const std::string record = table_of(t, 1).record_key();
  for (size_t i = 0; i < cluster.size(); ++i) {
    if (says(cluster[i].ask({"EXISTS", record}), "MOVED")) {
      REQUIRE(cluster[i].ask({"FLUSHALL"}) == "OK");
      break;
    }
  }
  CHECK(count(settings, t).missing_parts > 1);
  CHECK(h.fetch(0, t.keys, t.row_bytes()).code != 0);
  Handle w;
  REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE_MESSAGE(w.mend(0, t) == 0, w.message());
  CHECK(compare(h, 0, t, t.keys) == "");
  CHECK(std::string(count(settings, t).what).empty());
}

}  // namespace dpi::test::repair_test
