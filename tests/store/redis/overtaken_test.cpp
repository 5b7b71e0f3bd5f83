// Repairs that are overtaken by other writers, and one that is killed: rows of two contents are never mixed,
// and what is not whole says so.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/redis/losses.hpp"

namespace dpi::test::overtaken_test {

TEST_CASE("a repair that was overtaken changes nothing any more, whatever it had still to do") {
  if (!redis_installed()) return;
  enum How { kByRepairAndUpdate, kByDropAndLoad };
  for (const How how : {kByRepairAndUpdate, kByDropAndLoad}) {
    for (const bool sealing : {false, true}) {  // what it does next
      CAPTURE(how);
      CAPTURE(sealing);
      RedisServer server;
      // Leases do not run out by themselves, so that it is the partitions which refuse.
      const Settings settings = {{"address", server.address()}, {"partitions", "4"}, {"lease_ms", "60000"}};
      const auto t = KnownTable::make("x", 'a', 8, 2000, true, 5);
      load(settings, t);
      const std::string lease = table_of(t, 4).record_key() + ":writer";
      const auto next = changed(t, 'b', keys_of(t, 4, 1), {});
      lose(server, t, 4, 1);
      Handle first;
      REQUIRE(first.open(settings, {&t}, DPI_STORE_WRITE) == 0);
      REQUIRE(first.begin_repair(0) == 0);
      REQUIRE(first.count_keys(0, t) == 0);
      REQUIRE(first.repair(0, t, 0, sealing ? t.rows() : 1000) == 0);
      REQUIRE(server.ask({"DEL", lease}) == "1");  // it has been silent for too long
      {
        Handle second;
        REQUIRE(second.open(settings, {&t}, DPI_STORE_WRITE) == 0);
        if (how == kByRepairAndUpdate) {
          REQUIRE_MESSAGE(second.mend(0, t) == 0, second.message());
        } else {
          REQUIRE_MESSAGE(second.drop(0) == 0, second.message());
          load(settings, t);
        }
      }
      update(settings, t, next, keys_of(t, 4, 1), {});
      const int32_t late = sealing ? first.end_repair(0) : first.repair(0, t, 1000, t.rows());
      CHECK(late == code(Code::kClosed));
      CHECK_MESSAGE(says(first.message(), "another writer has taken over partition 1"), first.message());
      Handle h;
      REQUIRE_MESSAGE(h.open(settings, {&next}, DPI_STORE_READ) == 0, h.message());
      CHECK(compare(h, 0, next, next.keys) == "");
      CHECK(std::string(count(settings, next).what).empty());
    }
  }
}

TEST_CASE("a repair of a load that was cut off ends when another writer has completed it") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "4"}, {"lease_ms", "100"}};
  const auto t = KnownTable::make("x", 'a', 8, 2000, true, 5);
  Handle first;
  REQUIRE(first.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE(first.write(0, t, 0, t.rows(), 42) == 0);
  lose(server, t, 4, 1);
  REQUIRE(first.begin_repair(0) == 0);
  REQUIRE(first.count_keys(0, t) == 0);
  REQUIRE(first.repair(0, t, 0, 1000) == 0);
  {
    Handle second;
    REQUIRE(second.open(settings, {&t}, DPI_STORE_WRITE) == 0);
    REQUIRE(second.mend(0, t) == 0);
    REQUIRE_MESSAGE(second.complete(0) == 0, second.message());
  }
  const auto next = changed(t, 'b', keys_of(t, 4, 1), {});
  update(settings, t, next, keys_of(t, 4, 1), {});
  CHECK(first.repair(0, t, 1000, t.rows()) == code(Code::kClosed));
  CHECK_MESSAGE(says(first.message(), "has completed or dropped it"), first.message());
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&next}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, next, next.keys) == "");
}

TEST_CASE("a partition that lacks rows under its seal says so while it is repaired, and if that is killed") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "4"}, {"lease_ms", "100"}};
  const auto t = KnownTable::make("x", 'a', 8, 2000, true, 5);
  load(settings, t);
  Handle h;
  REQUIRE(h.open(settings, {&t}, DPI_STORE_READ) == 0);
  const redis::Table table = table_of(t, 4);
  // Of the second half, which the repair does not come to.
  std::vector<int64_t> first_half;
  int64_t lost = 0, absent = 1;
  for (size_t i = 0; i < t.keys.size(); ++i) {
    if (table.partition_of(t.keys[i]) != 2) continue;
    if (i < 1000) first_half.push_back(t.keys[i]);
    if (i >= 1000) lost = t.keys[i];
  }
  while (table.partition_of(absent) != 2 || t.row(absent) != nullptr) ++absent;
  REQUIRE(server.ask({"HDEL", table.partition_key(2), std::string(redis::Field(lost).view())}) == "1");
  CHECK(count(settings, t).missing_parts == 0);
  CHECK(count(settings, t).missing_rows == 1);
  const pid_t child = ::fork();
  if (child == 0) {
    Handle w;
    const bool begun = w.open(settings, {&t}, DPI_STORE_WRITE) == 0 && w.begin_repair(0) == 0 &&
                       w.count_keys(0, t) == 0 && w.repair(0, t, 0, 1000) == 0;
    ::kill(::getpid(), begun ? SIGKILL : SIGTERM);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
  // Served as before, and nobody takes the lost key for an absent one.
  CHECK(compare(h, 0, t, keys_of(t, 4, 3)) == "");
  CHECK(compare(h, 0, t, first_half) == "");
  for (const int64_t key : {lost, absent}) {
    const Fetched f = h.fetch(0, {key}, t.row_bytes());
    CHECK(f.code == code(Code::kIo));
    CHECK_MESSAGE(says(f.message, "partition 2"), f.message);
  }
  CHECK(count(settings, t).missing_parts == 1);
  CHECK(count(settings, t).missing_rows == 1);
  CHECK(std::string(count(settings, t).what) == "partition 2 of 4");
  Handle second;
  REQUIRE(second.open(settings, {&t}, DPI_STORE_WRITE) == 0);
  REQUIRE_MESSAGE(second.mend(0, t) == 0, second.message());
  CHECK(compare(h, 0, t, t.keys) == "");
  CHECK(compare(h, 0, t, {absent}) == "");
  CHECK(std::string(count(settings, t).what).empty());
}

TEST_CASE("a table without rows is repaired too, and one whose record was lost is updated after a repair") {
  if (!redis_installed()) return;
  RedisServer server;
  const Settings settings = {{"address", server.address()}, {"partitions", "2"}, {"lease_ms", "100"}};
  const auto none = KnownTable::make("none", 'c', 8, 0, true, 5);
  load(settings, none);
  lose(server, none, 2, 0);
  CHECK(count(settings, none).missing_parts == 1);
  Handle w, h;
  REQUIRE(w.open(settings, {&none}, DPI_STORE_WRITE) == 0);
  REQUIRE_MESSAGE(w.mend(0, none) == 0, w.message());
  REQUIRE_MESSAGE(h.open(settings, {&none}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, none, {1, 2, 3}) == "");

  const auto t = KnownTable::make("x", 'a', 8, 1000, true, 5);
  load(settings, t);
  for (int i = 0; i < 3; ++i) {
    lose(server, t, 2, 1);
    REQUIRE(w.open(settings, {&t}, DPI_STORE_WRITE) == 0);
    REQUIRE_MESSAGE(w.mend(0, t) == 0, w.message());
  }
  REQUIRE(server.ask({"DEL", table_of(t, 2).record_key()}) == "1");
  load(settings, t);
  const auto next = changed(t, 'b', {t.keys[0]}, {});
  update(settings, t, next, {t.keys[0]}, {});
  REQUIRE_MESSAGE(h.open(settings, {&next}, DPI_STORE_READ) == 0, h.message());
  CHECK(compare(h, 0, next, next.keys) == "");
}

}  // namespace dpi::test::overtaken_test
