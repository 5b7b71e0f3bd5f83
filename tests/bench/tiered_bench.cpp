// HostCache::acquire + release, all rows in the host tier: ns a key over 26 tables with 10 M keys in all, at
// 2048 rows a call and at 1, for uniform and Zipf(1.05) keys; one call of hits with a share of misses from
// memory; and what enter and leave cost alone. Batches rotate, so no bucket is still in a cache by accident.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/bench.hpp"
#include "store/tiered/host_cache.hpp"

namespace {

using namespace dpi;
using namespace dpi::tiered;
using namespace dpi::bench;

constexpr int kTables = 26;
constexpr int64_t kKeys = 10'000'000 / kTables;  // of a table
constexpr int64_t kBatches = 16;

/// Rows of four floats, the first of which is the key's low bits.
class MemorySource final : public RowSource {
 public:
  Status fetch(const FetchRequest& r) override {
    for (size_t i = 0; i < r.keys.size(); ++i) {
      const float row[4] = {static_cast<float>(r.keys[i] & 0xffff), 1, 2, 3};
      std::memcpy(r.rows[i], row, sizeof row);
      r.found[i / 64] |= uint64_t{1} << (i % 64);
    }
    return {};
  }
};

int64_t key_of(int64_t rank) {
  return static_cast<int64_t>(static_cast<uint64_t>(rank) * 0x9e3779b97f4a7c1u - 77);
}

struct Setup {
  Setup() {
    std::vector<CacheTable> tables;
    for (int t = 0; t < kTables; ++t) {
      CacheTable table;
      table.row.name = "t" + std::to_string(t);
      table.row.rows = kKeys;
      table.row.dim = 4;
      tables.push_back(table);
    }
    CacheOptions o;
    o.budget = uint64_t{2} << 30;
    auto made = HostCache::make(tables, o, &source, {}, {});
    if (!made.ok()) std::fprintf(stderr, "%s\n", made.status().message().c_str()), std::exit(1);
    cache = std::move(made).value();
    reader = cache->make_reader(kTables * 2048).value();
    std::vector<int64_t> keys(8192);
    std::vector<int32_t> places(keys.size());
    for (int32_t t = 0; t < kTables; ++t) {
      for (int64_t done = 0; done < kKeys; done += 8192) {
        const int64_t n = std::min<int64_t>(8192, kKeys - done);
        for (int64_t i = 0; i < n; ++i) keys[i] = key_of(done + i);
        acquire({{t, keys.data(), n, places.data()}});
        cache->release(*reader);
      }
    }
  }
  void acquire(const std::vector<CacheLookup>& lookups) {
    const Status s = cache->acquire(*reader, lookups, 0);
    if (!s.ok()) std::fprintf(stderr, "%s\n", s.message().c_str()), std::exit(1);
  }
  MemorySource source;
  std::unique_ptr<HostCache> cache;
  HostCache::Reader reader;
};

std::unique_ptr<Setup> the_setup;

/// Ranks by inversion of the continuous Zipf distribution, spread over the table.
std::vector<int64_t> ranks(int64_t n, bool zipf) {
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> u(0, 1);
  std::vector<int64_t> v(static_cast<size_t>(n));
  const double s = 1.05, top = std::pow(static_cast<double>(kKeys), 1 - s);
  for (int64_t& r : v) {
    const double x = u(rng);
    const double rank = zipf ? std::pow(1 + x * (top - 1), 1 / (1 - s)) : x * static_cast<double>(kKeys);
    r = static_cast<int64_t>(static_cast<uint64_t>(std::min(rank, static_cast<double>(kKeys - 1))) * 48271 %
                             kKeys);
  }
  return v;
}

void probe(benchmark::State& state, int64_t rows, bool zipf, int64_t new_keys_in_1000) {
  Setup& s = *the_setup;
  const int64_t per_call = kTables * rows;
  const int64_t batches = std::max(kBatches, kBatches * 2048 / rows / 8);
  std::vector<int64_t> keys = ranks(per_call * batches, zipf);
  for (int64_t& k : keys) k = key_of(k);
  std::vector<int32_t> places(static_cast<size_t>(per_call));
  static int64_t fresh = int64_t{1} << 60;
  int64_t batch = 0;
  const auto call = [&] {
    int64_t* first = keys.data() + batch++ % batches * per_call;
    if (new_keys_in_1000 > 0)
      for (int64_t i = 0; i < per_call; i += 1000 / new_keys_in_1000) first[i] = ++fresh;
    CacheLookup lookups[kTables];
    for (int t = 0; t < kTables; ++t) lookups[t] = {t, first + t * rows, rows, places.data() + t * rows};
    const Status status = s.cache->acquire(*s.reader, lookups, 0);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str()), std::exit(1);
    s.cache->release(*s.reader);
  };
  const int64_t calls = rows == 1 ? 1000 : 1;
  for (auto _ : state) {
    const double t = best_seconds(
                         [&] {
                           for (int64_t i = 0; i < calls; ++i) call();
                         },
                         1.0) /
                     static_cast<double>(calls);
    state.SetIterationTime(t);
    state.counters["ns_a_key"] = t * 1e9 / static_cast<double>(per_call);
  }
}

void enter_leave(benchmark::State& state) {
  Epochs epochs;
  auto* line = epochs.add_reader().value();
  for (auto _ : state) {
    const double t = best_seconds(
        [&] {
          for (int i = 0; i < 1000; ++i) epochs.enter(*line), epochs.leave(*line);
        },
        0.2);
    state.SetIterationTime(t / 1000);
    state.counters["ns"] = t * 1e6;
  }
}

}  // namespace

int main(int argc, char** argv) {
  the_setup = std::make_unique<Setup>();
  add("BM_epoch/enter_leave", enter_leave);
  for (const int64_t rows : {int64_t{2048}, int64_t{1}}) {
    for (const bool zipf : {false, true}) {
      const std::string name = "BM_acquire/26x" + std::to_string(rows) + (zipf ? "/zipf" : "/uniform");
      add(name, [rows, zipf](benchmark::State& s) { probe(s, rows, zipf, 0); });
    }
  }
  add("BM_acquire/26x2048/uniform/1_percent_missing", [](benchmark::State& s) { probe(s, 2048, false, 10); });
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
