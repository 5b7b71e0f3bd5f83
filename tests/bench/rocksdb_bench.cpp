// Rows of 64 bytes from libdpi_rocksdb.so, in the page cache: what loading 4 M of them takes, and a fetch of
// 16, 256 and 1024 random keys, beside RocksDB's bare MultiGet over the same files with the same options in
// the same run. Keys rotate over 64 batches. TMPDIR says where the 300 MB go.
#include <rocksdb/db.h>
#include <rocksdb/table.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "base/clock.hpp"
#include "bench/bench.hpp"
#include "store/tiered/plugin_source.hpp"

namespace {

using namespace dpi;
using namespace dpi::tiered;
using namespace dpi::bench;

constexpr int64_t kRows = 4'000'000;
constexpr int64_t kBytes = 64;
constexpr int64_t kWritten = 65536;  // rows a write: 4 MB
constexpr size_t kBatches = 64;

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

void need(const Status& s) {
  if (!s.ok()) give_up(s.message());
}

struct Setup {
  Setup() {
    path = (std::filesystem::temp_directory_path() / "dpi_rocksdb_bench_XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) give_up("no temporary directory");
    auto found = store::find_store_plugin("rocksdb", DPI_BENCH_PLUGINS);
    need(found.status());
    request.settings = {{"path", path + "/tables"}};
    request.tables = {{"users", std::string(64, 'a'), kRows, kBytes, 16, 0, false}};
    request.mode = DPI_STORE_WRITE;
    load(**found);
    request.mode = DPI_STORE_READ;
    auto opened = PluginSource::open(**found, request);
    need(opened.status());
    source = std::move(opened).value();
    request.settings.emplace_back("reads", "pread");
    opened = PluginSource::open(**found, request);
    need(opened.status());
    unmapped = std::move(opened).value();
    open_bare();
  }
  ~Setup() {
    for (rocksdb::ColumnFamilyHandle* f : families) static_cast<void>(bare->DestroyColumnFamilyHandle(f));
    bare.reset();
    source.reset();
    unmapped.reset();
    std::filesystem::remove_all(path);
  }
  void load(const store::StorePlugin& plugin) {
    const uint64_t begin = monotonic_ns();
    auto opened = PluginSource::open(plugin, request);
    need(opened.status());
    std::vector<int64_t> keys(kWritten);
    std::vector<std::byte> rows(kWritten * kBytes, std::byte{7});
    for (int64_t first = 0; first < kRows; first += kWritten) {
      const int64_t n = std::min(kWritten, kRows - first);
      for (int64_t i = 0; i < n; ++i) {
        keys[static_cast<size_t>(i)] = first + i;
        std::memcpy(rows.data() + i * kBytes, &keys[static_cast<size_t>(i)], 8);
      }
      const auto count = static_cast<size_t>(n);
      need((*opened)->write(0, std::span(keys).first(count), std::span(rows).first(count * kBytes), 1));
    }
    need((*opened)->complete(0));
    load_seconds = static_cast<double>(monotonic_ns() - begin) * 1e-9;
  }
  void open_bare() {
    rocksdb::BlockBasedTableOptions table;
    table.no_block_cache = true;
    rocksdb::ColumnFamilyOptions family;
    family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DBOptions o;
    o.allow_mmap_reads = true;
    const std::string name = "rows/" + request.tables[0].content + "/users";
    rocksdb::DB* db = nullptr;
    const rocksdb::Status s = rocksdb::DB::OpenForReadOnly(
        o, path + "/tables", {{"default", family}, {name, family}}, &families, &db);
    if (!s.ok()) give_up(s.ToString());
    bare.reset(db);
  }

  std::string path;
  StoreRequest request;
  std::unique_ptr<PluginSource> source, unmapped;
  std::unique_ptr<rocksdb::DB> bare;
  std::vector<rocksdb::ColumnFamilyHandle*> families;
  double load_seconds = 0;
};

std::unique_ptr<Setup> the_setup;

std::vector<int64_t> distinct(size_t n, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<int64_t> keys;
  while (keys.size() < n) {
    const auto key = static_cast<int64_t>(rng() % kRows);
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

/// The thread's own time: all is in memory, and other programs' turns are not the store's.
uint64_t thread_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

/// us for a call of n keys: the median of many calls, which the best would flatter.
template <class F>
void measure(benchmark::State& state, size_t n, F&& call) {
  std::vector<std::vector<int64_t>> batches;
  for (size_t b = 0; b < kBatches; ++b) batches.push_back(distinct(n, b));
  for (const auto& batch : batches) call(batch);
  for (auto _ : state) {
    std::vector<double> times;
    const size_t calls = 200'000 / n;
    for (size_t i = 0; i < calls; ++i) {
      const uint64_t begin = thread_ns();
      call(batches[i % kBatches]);
      times.push_back(static_cast<double>(thread_ns() - begin));
    }
    std::sort(times.begin(), times.end());
    const double median = times[times.size() / 2];
    state.SetIterationTime(median * 1e-9);
    state.counters["us"] = median * 1e-3;
    state.counters["p99_us"] = times[times.size() * 99 / 100] * 1e-3;
    state.counters["keys_per_s"] = static_cast<double>(n) / median * 1e9;
  }
}

void plugin_fetch(benchmark::State& state, PluginSource& source, size_t n) {
  std::vector<std::byte> rows(n * kBytes);
  std::vector<std::byte*> to(n);
  for (size_t i = 0; i < n; ++i) to[i] = rows.data() + i * kBytes;
  std::vector<uint64_t> found((n + 63) / 64);
  measure(state, n, [&](const std::vector<int64_t>& keys) {
    std::fill(found.begin(), found.end(), 0);
    need(source.fetch({0, keys, to.data(), found.data(), 0}));
    for (size_t i = 0; i < n; ++i) {
      if (std::memcmp(to[i], &keys[i], 8) != 0) give_up("another row");
    }
  });
}

void bare_multi_get(benchmark::State& state, size_t n) {
  std::vector<std::array<char, 8>> bytes(n);
  std::vector<rocksdb::Slice> keys(n);
  std::vector<rocksdb::PinnableSlice> values(n);
  std::vector<rocksdb::Status> states(n);
  measure(state, n, [&](const std::vector<int64_t>& asked) {
    for (size_t i = 0; i < n; ++i) {
      for (int b = 0; b < 8; ++b)
        bytes[i][static_cast<size_t>(b)] = static_cast<char>(static_cast<uint64_t>(asked[i]) >> (56 - 8 * b));
      keys[i] = {bytes[i].data(), 8};
      values[i].Reset();
    }
    the_setup->bare->MultiGet({}, the_setup->families[1], n, keys.data(), values.data(), states.data(),
                              false);
    for (size_t i = 0; i < n; ++i) {
      if (!states[i].ok() || std::memcmp(values[i].data(), &asked[i], 8) != 0) give_up("another row");
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  the_setup = std::make_unique<Setup>();
  std::printf("loading %.1f s, %.0f rows/s\n", the_setup->load_seconds,
              static_cast<double>(kRows) / the_setup->load_seconds);
  for (const size_t n : {size_t{16}, size_t{256}, size_t{1024}}) {
    add("BM_multiget/bare/" + std::to_string(n), [n](benchmark::State& s) { bare_multi_get(s, n); });
    add("BM_fetch/plugin/" + std::to_string(n),
        [n](benchmark::State& s) { plugin_fetch(s, *the_setup->source, n); });
    add("BM_fetch/pread/" + std::to_string(n),
        [n](benchmark::State& s) { plugin_fetch(s, *the_setup->unmapped, n); });
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  the_setup.reset();
  return 0;
}
