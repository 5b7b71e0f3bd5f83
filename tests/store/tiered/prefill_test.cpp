// What a host cache holds after loading: the rows of a list that have places, hottest first whatever their
// tables, then first rows; and that rows of a list stay while rows that are asked for once pass through.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "store/hot_keys/hot_key_writer.hpp"
#include "store/tiered/cache_fixture.hpp"
#include "store/tiered/prefill.hpp"

namespace dpi::test::prefill_test {
namespace {

constexpr int64_t kRows = 20000;

std::unique_ptr<HotKeyFile> list_of(const std::vector<std::pair<std::string, std::vector<HotKey>>>& tables) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("dpi_prefill_" + std::to_string(getpid()))).string();
  std::vector<HotTable> heads;
  for (const auto& [name, keys] : tables) {
    HotTable t;
    t.name = name;
    t.rows = kRows;
    t.n = static_cast<int64_t>(keys.size());
    for (const HotKey& k : keys) t.lookups += k.count;
    heads.push_back(t);
  }
  auto w = HotKeyWriter::create(path, heads);
  REQUIRE(w.ok());
  for (const auto& t : tables) REQUIRE((*w)->add(t.second).ok());
  REQUIRE((*w)->commit().ok());
  auto list = HotKeyFile::open(path);
  REQUIRE_MESSAGE(list.ok(), list.status().message());
  std::filesystem::remove(path);  // it stays open
  return std::move(list).value();
}

std::vector<Prefill::Table> three_tables() {
  return {{"t0", kRows, {}}, {"t1", kRows, {}}, {"t2", kRows, {}}};
}

/// Rows [0, kRows) of every table pass.
void stream(Prefill* prefill) {
  for (int32_t t = 0; t < 3; ++t) {
    for (int64_t key = 0; key < kRows; ++key) {
      std::vector<float> row;
      for (int64_t e = 0; e < kDims[t]; ++e) row.push_back(element(t, key, e));
      prefill->offer(t, key, std::as_bytes(std::span(row)));
    }
  }
}

/// Keys that lie all over a table, hottest first.
std::vector<HotKey> spread(int64_t n, uint64_t hottest) {
  std::vector<HotKey> keys;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t key = 11 + i * 4001 % (kRows - 11);
    keys.push_back({key, std::max<uint64_t>(1, hottest / static_cast<uint64_t>(i + 1))});
  }
  std::sort(keys.begin(), keys.end(), hotter);
  return keys;
}

std::vector<int64_t> keys_of(const std::vector<HotKey>& hot, size_t n) {
  std::vector<int64_t> keys;
  for (size_t i = 0; i < n; ++i) keys.push_back(hot[i].key);
  return keys;
}

uint64_t fetched(const Cache& c, int32_t table) { return c.cache->stats(table).fetches.fetched; }

TEST_CASE("rows of a list are there from the first call on, and are the source's") {
  Cache c(small_options(400000));
  const auto t0 = spread(1000, 5000), t1 = spread(300, 100), t2 = spread(700, 9000);
  Prefill prefill(c.cache.get(), three_tables());
  REQUIRE(prefill.choose(*list_of({{"t2", t2}, {"t0", t0}, {"resident", spread(5, 3)}, {"t1", t1}})).ok());
  stream(&prefill);
  auto r = c.reader();
  REQUIRE(c.get(*r, 0, keys_of(t0, t0.size())).ok());
  REQUIRE(c.get(*r, 1, keys_of(t1, t1.size())).ok());
  REQUIRE(c.get(*r, 2, keys_of(t2, t2.size())).ok());
  for (int32_t t = 0; t < 3; ++t) CHECK(fetched(c, t) == 0);
  CHECK(c.cache->stats(0).lookups.hits == t0.size());
  CHECK(c.source.fetches == 0);
  // what the list leaves goes to first rows
  REQUIRE(c.get(*r, 0, iota(8, 100)).ok());
  CHECK(fetched(c, 0) == 0);
  CHECK(c.cache->fill(0).free < c.cache->plan().classes[0].places() / 16);
}

TEST_CASE("without a list only first rows are there") {
  Cache c(small_options(400000));
  Prefill prefill(c.cache.get(), three_tables());
  stream(&prefill);
  auto r = c.reader();
  REQUIRE(c.get(*r, 0, iota(8, 100)).ok());
  CHECK(fetched(c, 0) == 0);
  REQUIRE(c.get(*r, 0, keys_of(spread(1000, 5000), 1000)).ok());
  CHECK(fetched(c, 0) > 500);
}

TEST_CASE("a list that is larger than the cache: the hottest of it, whatever their table") {
  Cache c(small_options(200000));
  // t0 and t2 share places; t2's rows are all colder
  const auto t0 = spread(kRows / 2, 1000000), t2 = spread(kRows / 2, 1);
  const auto places = static_cast<size_t>(c.cache->plan().classes[0].places());
  REQUIRE(places < t0.size());
  REQUIRE(t0[places].count > t2[0].count);
  Prefill prefill(c.cache.get(), three_tables());
  REQUIRE(prefill.choose(*list_of({{"t2", t2}, {"t0", t0}})).ok());
  stream(&prefill);
  auto r = c.reader();
  const size_t sure = places * 3 / 4;  // keys fall to shards unevenly
  for (size_t i = 0; i < sure; i += 64) REQUIRE(c.get(*r, 0, {t0[i].key, t0[i + 1].key, t0[i + 2].key}).ok());
  CHECK(fetched(c, 0) == 0);
  REQUIRE(c.get(*r, 2, keys_of(t2, 60)).ok());
  CHECK(fetched(c, 2) >= 50);
}

/// The share of hot rows that had to be fetched again after as many keys as there are places were asked for
/// once each. They stream by last, so as first rows they would be the next to go.
double evicted_by_scan(bool with_list) {
  CacheOptions options = small_options(300000);
  options.shards = 1;
  Cache c(options);
  const int64_t places = c.cache->plan().classes[0].places();
  std::vector<HotKey> listed;
  std::vector<int64_t> hot;
  for (int64_t i = 0; i < places; ++i) {
    const bool is_hot = i >= places * 3 / 4;
    listed.push_back({5000 + i, is_hot ? uint64_t{300} : 1});
    if (is_hot) hot.push_back(5000 + i);
  }
  std::sort(listed.begin(), listed.end(), hotter);
  Prefill prefill(c.cache.get(), three_tables());
  if (with_list) REQUIRE(prefill.choose(*list_of({{"t0", listed}})).ok());
  stream(&prefill);
  auto r = c.reader();
  if (!with_list) REQUIRE(c.get(*r, 0, hot).ok());
  for (int64_t done = 0; done < places; done += 50) REQUIRE(c.get(*r, 0, iota(2000000 + done, 50)).ok());
  const uint64_t before = fetched(c, 0);
  REQUIRE(c.get(*r, 0, hot).ok());
  return static_cast<double>(fetched(c, 0) - before) / static_cast<double>(hot.size());
}

TEST_CASE("rows of a list are not evicted by rows that are asked for once") {
  const double with = evicted_by_scan(true), without = evicted_by_scan(false);
  MESSAGE("fetched again with a list " << 100 * with << " %, without " << 100 * without << " %");
  CHECK(with < 0.02);
  CHECK(without > 0.05);
}

TEST_CASE("rows that do not stream by are fetched, in order of keys and once") {
  Cache c(small_options(200000));
  std::vector<HotKey> hot = spread(600, 5000);
  hot.push_back({7, 1});  // that no tier has
  Prefill prefill(c.cache.get(), three_tables());
  REQUIRE(prefill.choose(*list_of({{"t0", hot}})).ok());
  REQUIRE(prefill.fetch_rest(0, c.source).ok());
  REQUIRE(prefill.fetch_rest(1, c.source).ok());
  CHECK(c.source.fetches == 3);  // of at most 256
  auto r = c.reader();
  REQUIRE(c.get(*r, 0, keys_of(hot, 600)).ok());
  CHECK(fetched(c, 0) == 0);
  CHECK(c.source.asked(0, 7) == 1);
  Prefill failing(c.cache.get(), three_tables());
  REQUIRE(failing.choose(*list_of({{"t1", hot}})).ok());
  c.source.failing = 1;
  CHECK(failing.fetch_rest(1, c.source).message() == "the disk is gone");
}

TEST_CASE("rows that lie elsewhere take no place; a key that is there twice is refused") {
  Cache c(small_options(200000));
  auto tables = three_tables();
  tables[0].elsewhere = {5};
  Prefill prefill(c.cache.get(), tables);
  REQUIRE(prefill.choose(*list_of({{"t0", {{5, 9}, {6, 8}}}})).ok());
  stream(&prefill);
  auto r = c.reader();
  REQUIRE(c.get(*r, 0, {6}).ok());
  CHECK(fetched(c, 0) == 0);
  REQUIRE(c.get(*r, 0, {5}).ok());
  CHECK(fetched(c, 0) == 1);
  Cache fresh(small_options(200000));
  Prefill twice(fresh.cache.get(), tables);
  const Status s = twice.choose(*list_of({{"t1", {{40, 9}, {6, 8}, {40, 7}}}}));
  CHECK(s.code() == Code::kBadModel);
  CHECK(s.message().find("table 't1' has key 40 twice") != std::string::npos);
}

}  // namespace
}  // namespace dpi::test::prefill_test
