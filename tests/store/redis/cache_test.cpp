// The host cache over the plugin: a tiny budget, so that rows are fetched, thrown out and fetched again.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "base/status.hpp"
#include "store/redis/handle.hpp"
#include "store/redis/redis_server.hpp"
#include "store/tiered/host_cache.hpp"

namespace dpi::test::cache_test {

using namespace dpi::tiered;

namespace {

class PluginRows final : public RowSource {
 public:
  explicit PluginRows(dpi_store_handle* h) : h_(h) {}
  Status fetch(const FetchRequest& r) override {
    ++fetches;
    const dpi_store_fetch c{r.table,       static_cast<int64_t>(r.keys.size()),
                            r.keys.data(), reinterpret_cast<unsigned char* const*>(r.rows),
                            r.found,       r.deadline_ns,
                            r.failed};
    dpi_store_error error{};
    const int32_t code = Handle::api().fetch(h_, &c, &error);
    return code == 0 ? ok_status() : Status(static_cast<Code>(code), error.message);
  }
  std::atomic<int64_t> fetches{0};

 private:
  dpi_store_handle* h_;
};

constexpr float kAbsent = -12345.5f;

// Does the place hold the row of the key, or the default row where the key has none?
bool right(const HostCache& cache, const KnownTable& t, int64_t key, int32_t place) {
  const auto v = cache.view(0);
  const auto* at = static_cast<const char*>(v.base) + place * v.row_bytes;
  const unsigned char* row = t.row(key);
  if (row == nullptr)
    return place == cache.default_place(0) && std::memcmp(at, &kAbsent, sizeof kAbsent) == 0;
  return std::memcmp(at, row, static_cast<size_t>(t.row_bytes())) == 0;
}

int64_t wrong_rows(HostCache& cache, const KnownTable& t, uint64_t seed, int rounds) {
  auto reader = cache.make_reader(512).value();
  std::mt19937_64 random(seed);
  int64_t wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    std::vector<int64_t> keys(1 + random() % 500);
    for (int64_t& k : keys)  // the same ones more often than others
      k = random() % 8 == 0 ? static_cast<int64_t>(random() % 1000 + 5)
                            : t.keys[random() % (1 + random() % t.keys.size())];
    std::vector<int32_t> places(keys.size(), -1);
    const CacheLookup lookup{0, keys.data(), static_cast<int64_t>(keys.size()), places.data()};
    const Status s = cache.acquire(*reader, {&lookup, 1}, 0);
    if (!s.ok()) {
      MESSAGE(s.message());
      return -1;
    }
    for (size_t i = 0; i < keys.size(); ++i) wrong += right(cache, t, keys[i], places[i]) ? 0 : 1;
    cache.release(*reader);
  }
  return wrong;
}

}  // namespace

TEST_CASE("exact rows through the host cache, four threads, a cache of a tenth of the table") {
  if (!redis_installed()) return;
  RedisServer server;
  const auto t = KnownTable::make("x", 'a', 16, 20'000, true, 1);
  load({{"address", server.address()}}, t);
  Handle h;
  REQUIRE(h.open({{"address", server.address()}}, {&t}, DPI_STORE_READ) == 0);
  PluginRows source(h.get());
  CacheTable table;
  table.row = {"x", 0, t.dim, kernels::DType::kF32};
  table.policy = MissPolicy::kExact;
  table.default_row.resize(sizeof kAbsent);
  std::memcpy(table.default_row.data(), &kAbsent, sizeof kAbsent);
  CacheOptions options;
  options.budget = 200'000;
  auto made = HostCache::make({table}, options, &source, {}, {});
  REQUIRE_MESSAGE(made.ok(), made.status().message());
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) threads.emplace_back([&, i] { wrong += wrong_rows(**made, t, i, 60); });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(source.fetches > 60);  // much was fetched more than once
}

}  // namespace dpi::test::cache_test
