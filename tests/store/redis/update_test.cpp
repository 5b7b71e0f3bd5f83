// Rows that change in place while others read them: one writer a table, sequence numbers that a script on the
// server compares, and readers that say whether newer rows will do. Rows carry their key and their version.
// Planted, and seen: the script without its look at the fence, without its look at the sequence, with a count
// of gone keys that does not fall; a lease that a second writer gets too; newer rows that are not told
// apart.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/status.hpp"
#include "store/redis/handle.hpp"
#include "store/redis/redis_server.hpp"
#include "store/redis/table.hpp"

namespace dpi::test::update_test {
namespace {

constexpr int32_t kDim = 8;  // 16 times (key, version)
constexpr int64_t kRows = 3000;

int32_t code(Code c) { return static_cast<int32_t>(c); }
bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<unsigned char> row_of(int64_t key, int32_t version) {
  std::vector<unsigned char> row(kDim * 4);
  for (size_t at = 0; at < row.size(); at += 8) {
    const auto k = static_cast<int32_t>(key);
    std::memcpy(row.data() + at, &k, 4);
    std::memcpy(row.data() + at + 4, &version, 4);
  }
  return row;
}

/// The version of a row that is whole and the key's, else -1.
int32_t version_of(const unsigned char* row, int64_t key) {
  int32_t version = -1;
  std::memcpy(&version, row + 4, 4);
  return std::memcmp(row, row_of(key, version).data(), kDim * 4) == 0 ? version : -1;
}

/// Keys 0, 1, ... of version 0, as 'a'; then as updates make it: 'b', 'c' ...
KnownTable versioned(char content, int64_t rows = kRows) {
  KnownTable t = KnownTable::make("items", content, kDim, 0, true, 1);
  for (int64_t k = 0; k < rows; ++k) {
    t.keys.push_back(k);
    const auto row = row_of(k, 0);
    t.bytes.insert(t.bytes.end(), row.begin(), row.end());
  }
  return t;
}

std::vector<int64_t> every(int64_t step, int64_t from = 0, int64_t to = kRows) {
  std::vector<int64_t> keys;
  for (int64_t k = from; k < to; k += step) keys.push_back(k);
  return keys;
}

std::vector<unsigned char> rows_of(const std::vector<int64_t>& keys, int32_t version) {
  std::vector<unsigned char> all;
  for (const int64_t k : keys) {
    const auto row = row_of(k, version);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

Settings at(const std::string& address, const char* lease_ms = "200") {
  return {{"address", address}, {"partitions", "4"}, {"lease_ms", lease_ms}};
}

Settings reading(const std::string& address) { return {{"address", address}}; }

/// A step by one call; "" or what was refused.
std::string step(Handle& h, const KnownTable& from, const KnownTable& next, const std::vector<int64_t>& set,
                 int32_t version, const std::vector<int64_t>& gone, const Settings& settings) {
  int64_t done = 0;
  if (h.open(settings, {&from}, DPI_STORE_UPDATE) != 0 || h.begin_update(0, next, 1, &done) != 0)
    return h.message();
  if (done < 0) return "had";
  const auto n = static_cast<int64_t>(set.size());
  if (h.update(0, set, rows_of(set, version), n) != 0) return h.message();
  if (!gone.empty() && h.update(0, gone, {}, n + static_cast<int64_t>(gone.size())) != 0) return h.message();
  return h.end_update(0) == 0 ? "" : h.message();
}

/// versions[key], -1 = absent; an empty list where a row is torn or the fetch failed.
std::vector<int32_t> versions(const Handle& h, const std::vector<int64_t>& keys, Fetched* out = nullptr) {
  const Fetched f = h.fetch(0, keys, kDim * 4);
  if (out != nullptr) *out = f;
  std::vector<int32_t> all;
  for (size_t i = 0; f.code == 0 && i < keys.size(); ++i) {
    all.push_back(f.has(i) ? version_of(f.rows.data() + i * kDim * 4, keys[i]) : -1);
    if (f.has(i) && all.back() < 0) return {};
  }
  return all;
}

}  // namespace

TEST_CASE("a step: rows are set, keys go and come; readers of either content are told") {
  if (!redis_installed()) return;
  RedisServer server;
  const auto a = versioned('a'), b = versioned('b', kRows - 90), c = versioned('c', kRows);
  load(at(server.address()), a);
  Handle old, stale, h;
  REQUIRE(old.open(reading(server.address()), {&a}, DPI_STORE_READ) == 0);
  KnownTable a_stale = a;
  a_stale.stale = true;
  REQUIRE(stale.open(reading(server.address()), {&a_stale}, DPI_STORE_READ) == 0);
  const auto set = every(3), gone = every(10, 0, 1000);      // 100 go, of which
  std::vector<int64_t> added = every(1, kRows, kRows + 10);  // and 10 come
  std::vector<int64_t> changed = set;
  std::erase_if(changed, [](int64_t k) { return k < 1000 && k % 10 == 0; });
  changed.insert(changed.end(), added.begin(), added.end());
  CHECK(step(h, a, b, changed, 1, gone, at(server.address())) == "");
  CHECK(step(h, a, b, changed, 1, gone, at(server.address())) == "had");

  // A model that runs: rows that no update changed are right, others are refused by name.
  CHECK(versions(old, every(3, 1001)) == std::vector<int32_t>(every(3, 1001).size(), 0));
  Fetched f;
  CHECK(versions(old, {3}, &f).empty());
  CHECK(f.code == code(Code::kBadModel));
  CHECK(says(f.message, "the row of key 3 is of update 1"));
  CHECK(says(f.message, "update=stale"));
  CHECK(versions(old, {10}, &f).empty());         // gone since
  CHECK(versions(old, {kRows + 3}, &f).empty());  // come since
  // One that accepts newer rows gets the newest, and counts them.
  CHECK(versions(stale, {1, 3, 10, kRows + 3, 999'999}) == std::vector<int32_t>{0, 1, -1, 1, -1});
  dpi_store_stat s{};
  REQUIRE(stale.stat(0, &s) == 0);
  CHECK(s.newer == 3);
  CHECK(s.sequence == 1);
  CHECK(s.rows == kRows - 90);
  CHECK(std::string(s.content) == std::string(64, 'b'));
  CHECK(std::string(s.writer) == "");
  // Opening by what it was is refused, by what it is now is right; later contents follow.
  CHECK(h.open(reading(server.address()), {&a}, DPI_STORE_READ) == code(Code::kNotFound));
  CHECK(says(h.message(), "has become bbbbbbbbbbbb... by update 1"));
  REQUIRE(h.open(reading(server.address()), {&b}, DPI_STORE_READ) == 0);
  CHECK(versions(h, {1, 3, 10, kRows + 3}) == std::vector<int32_t>{0, 1, -1, 1});
  Handle again;
  CHECK(step(again, b, c, {0, 10, 20, 30, 40, 50, 60, 70, 80, 90}, 2, {}, at(server.address())) !=
        "");  // 3000 - 80
  CHECK(says(again.message(), "has 2920 rows after the update, expected 3000"));
  CHECK(versions(h, {10}, &f).empty());
  CHECK(says(f.message, "of update 2"));
  CHECK(step(again, b, c, gone, 2,
             {kRows, kRows + 1, kRows + 2, kRows + 3, kRows + 4, kRows + 5, kRows + 6, kRows + 7, kRows + 8,
              kRows + 9},
             at(server.address())) == "");
  REQUIRE(h.open(reading(server.address()), {&c}, DPI_STORE_READ) == 0);
  CHECK(versions(h, {1, 3, 10, kRows + 3}) == std::vector<int32_t>{0, 1, 2, -1});
}

TEST_CASE("one writer: the second is refused by name, one that was followed changes nothing any more") {
  if (!redis_installed()) return;
  RedisServer server;
  const auto a = versioned('a'), b = versioned('b'), c = versioned('c');
  load(at(server.address()), a);
  const Settings long_lease = at(server.address(), "60000"), short_lease = at(server.address(), "150");
  Handle first, second;
  int64_t done = 0;
  REQUIRE(first.open(long_lease, {&a}, DPI_STORE_UPDATE) == 0);
  REQUIRE(first.begin_update(0, b, 1, &done) == 0);
  REQUIRE(second.open(short_lease, {&a}, DPI_STORE_UPDATE) == 0);
  CHECK(second.begin_update(0, b, 1, &done) == code(Code::kIo));
  CHECK(says(second.message(), "is being updated by "));
  CHECK(says(second.message(), " process " + std::to_string(::getpid()) + " "));
  dpi_store_stat s{};
  REQUIRE(second.stat(0, &s) == 0);
  CHECK(s.updating == 1);
  CHECK(says(s.writer, " process "));
  // Its lease has run out and another goes on: whatever the first one sends is refused, where it is sent.
  const std::string lease = redis::Table::make(a.described())->record_key() + ":writer";
  REQUIRE(server.ask({"DEL", lease}) == "1");
  REQUIRE(first.update(0, {1}, rows_of({1}, 1), 1) == 0);  // nobody has followed: it is renewed
  REQUIRE(server.ask({"DEL", lease}) == "1");
  REQUIRE_MESSAGE(second.begin_update(0, b, 1, &done) == 0, second.message());
  CHECK(done == 1);
  CHECK(first.update(0, {2}, rows_of({2}, 9), 2) == code(Code::kClosed));
  CHECK(says(first.message(), "has taken over the update; nothing was changed"));
  CHECK(first.update(0, {2}, {}, 2) == code(Code::kClosed));
  CHECK(first.end_update(0) == code(Code::kClosed));
  REQUIRE(second.update(0, {3}, rows_of({3}, 1), 2) == 0);
  REQUIRE(second.end_update(0) == 0);
  CHECK(first.update(0, {2}, rows_of({2}, 9), 2) == code(Code::kClosed));
  CHECK(first.end_update(0) == code(Code::kClosed));
  Handle h;
  REQUIRE(h.open(reading(server.address()), {&b}, DPI_STORE_READ) == 0);
  CHECK(versions(h, {1, 2, 3}) == std::vector<int32_t>{1, 0, 1});
  // Another update does not begin before one that was begun has ended.
  REQUIRE(second.open(short_lease, {&b}, DPI_STORE_UPDATE) == 0);
  REQUIRE(second.begin_update(0, c, 1, &done) == 0);
  second.close();
  Handle third;
  REQUIRE(third.open(at(server.address(), "400"), {&b}, DPI_STORE_UPDATE) == 0);
  CHECK(third.begin_update(0, versioned('d'), 1, &done) == code(Code::kBadModel));
  CHECK(says(third.message(), "is becoming cccccccccccc... by another update"));
  CHECK(third.begin_update(0, c, 2, &done) == 0);  // waits for the lease of the one that is gone
  CHECK(third.end_update(0) == 0);
}

TEST_CASE("a batch of an old sequence changes nothing and is told") {
  if (!redis_installed()) return;
  RedisServer server;
  const auto a = versioned('a'), b = versioned('b');
  load(at(server.address()), a);
  Handle h;
  int64_t done = 0;
  REQUIRE(h.open(at(server.address()), {&a}, DPI_STORE_UPDATE) == 0);
  REQUIRE(h.begin_update(0, b, 1, &done) == 0);
  auto table = *redis::Table::make(a.described());
  table.set_partitions(4);
  const int64_t partition = table.partition_of(7);
  REQUIRE(server.ask({"HSET", table.partition_key(partition), "update", "1 5 0"}) == "0");
  CHECK(h.update(0, {7}, rows_of({7}, 1), 1) == code(Code::kClosed));
  CHECK(says(h.message(), "rows of update 1 come after those of update 5; nothing was changed"));
  CHECK(h.end_update(0) == 0);
  REQUIRE(h.open(reading(server.address()), {&b}, DPI_STORE_READ) == 0);
  CHECK(versions(h, {7}) == std::vector<int32_t>{0});
}

TEST_CASE("readers beside a writer: no row is torn, in a cluster whose servers learn the script late") {
  if (!redis_installed()) return;
  RedisCluster cluster(3);
  cluster.wait_until_ok();
  const Settings writing = {{"address", cluster.addresses()}, {"partitions", "12"}, {"lease_ms", "500"}};
  load(writing, versioned('a'));
  KnownTable readers_table = versioned('a');
  readers_table.stale = true;
  std::atomic<bool> stop{false};
  std::atomic<int64_t> wrong{0}, fetched{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&, i] {
      Handle h;
      if (h.open(reading(cluster.addresses()), {&readers_table}, DPI_STORE_READ) != 0) ++wrong;
      std::vector<int32_t> last(kRows, 0);
      const auto keys = every(7, i);
      while (!stop) {
        const auto seen = versions(h, keys);
        if (seen.size() != keys.size()) ++wrong;
        for (size_t k = 0; k < seen.size(); ++k) {  // whole, and never an older one again
          auto& before = last[static_cast<size_t>(keys[k])];
          if (seen[k] < before) ++wrong;
          before = seen[k];
        }
        ++fetched;
      }
    });
  }
  Handle h;
  std::string names = "abcdefabcdef0123456789";
  for (int32_t v = 1; v <= 8; ++v) {
    if (v == 4) cluster[0].ask({"SCRIPT", "FLUSH"});
    const auto from = versioned(names[static_cast<size_t>(v - 1) % 6]),
               to = versioned(names[static_cast<size_t>(v) % 6]);
    CHECK(step(h, from, to, every(1 + v % 3), v, {}, writing) == "");
  }
  while (fetched < 30) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  stop = true;
  for (std::thread& t : readers) t.join();
  CHECK(wrong == 0);
  const auto last = versioned(names[8 % 6]);
  REQUIRE_MESSAGE(h.open(reading(cluster.addresses()), {&last}, DPI_STORE_READ) == 0, h.message());
  CHECK(versions(h, {0, 3, 6}) == std::vector<int32_t>{8, 8, 8});  // 1 + 8 % 3 = 3
}

}  // namespace dpi::test::update_test
