// What was written is what is read, and nothing else is.
// Planted, each seen: rows or bits in the sorted order instead of the request's; a row's last byte not
// copied; tables of one name and other content in one column family.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "store/rocksdb/fixture.hpp"
#include "store/tiered/host_cache.hpp"

namespace dpi::test::round_trip_test {
namespace {

std::vector<Oracle> many_tables() {
  return {make_oracle("users", 1, 5000, 64, false),    make_oracle("items", 2, 5000, 64, true),
          make_oracle("users", 3, 900, 12, true),      make_oracle("one byte", 4, 300, 1, false),
          make_oracle("größe/..", 5, 64, 20000, true), make_oracle("empty", 6, 0, 32, true),
          make_oracle("one row", 7, 1, 6, false)};
}

}  // namespace

TEST_CASE("tables of many shapes and bundles in one directory, whole and exact however they are read") {
  const Directory d;
  const std::vector<Oracle> tables = many_tables();
  // Two loads: as two bundles would.
  load(d.tables, {tables[0], tables[1], tables[4]});
  load(d.tables, {tables[2], tables[3], tables[5], tables[6]}, 64);
  std::mt19937_64 rng(11);
  for (const char* reads : {"mmap", "pread", "direct"}) {
    auto source = open_store(d.tables, DPI_STORE_READ, tables, {{"reads", reads}, {"cache_bytes", "100000"}});
    REQUIRE_MESSAGE(source.ok(), source.status().message());
    for (size_t t = 0; t < tables.size(); ++t) {
      CAPTURE(tables[t].spec.name);
      const auto table = static_cast<int32_t>(t);
      for (const size_t n : {size_t{0}, size_t{1}, size_t{2}, size_t{63}, size_t{64}, size_t{65}, size_t{127},
                             size_t{129}, size_t{1000}, size_t{4096}}) {
        const std::vector<int64_t> keys = some_keys(tables[t], n, rng);
        const Fetched f = fetch(**source, table, tables[t], keys);
        REQUIRE_MESSAGE(f.status.ok(), f.status.message());
        CHECK(wrong(f, tables[t], keys) == 0);
      }
      const Fetched all = fetch(**source, table, tables[t], tables[t].keys);
      REQUIRE(all.status.ok());
      CHECK(wrong(all, tables[t], tables[t].keys) == 0);
      const std::vector<int64_t> odd{INT64_MIN, -1, 0, 1, INT64_MAX, INT64_MAX - 1, 256, 1 << 24};
      CHECK(wrong(fetch(**source, table, tables[t], odd), tables[t], odd) == 0);
      const auto stat = (*source)->stat(table);
      REQUIRE(stat.ok());
      CHECK(stat->rows == tables[t].spec.rows);
      CHECK(stat->complete == 1);
      CHECK(stat->digest == (tables[t].keys.empty() ? 0 : tables[t].digest(tables[t].keys.size())));
      CHECK(stat->bytes >= tables[t].spec.rows * tables[t].spec.row_bytes);
    }
  }
}

TEST_CASE("eight threads fetch at once from one handle") {
  const Directory d;
  const std::vector<Oracle> tables{make_oracle("users", 1, 20000, 64, false),
                                   make_oracle("items", 2, 20000, 64, true)};
  load(d.tables, tables, 5000);
  auto source = open_store(d.tables, DPI_STORE_READ, tables);
  REQUIRE_MESSAGE(source.ok(), source.status().message());
  std::atomic<int64_t> wrongs{0}, calls{0};
  std::vector<std::thread> threads;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 rng(seed);
      for (int i = 0; i < 60; ++i) {
        const auto t = static_cast<size_t>(rng() % 2);
        const std::vector<int64_t> keys = some_keys(tables[t], rng() % 400, rng);
        const Fetched f = fetch(**source, static_cast<int32_t>(t), tables[t], keys);
        wrongs += f.status.ok() ? wrong(f, tables[t], keys) : 1;
        ++calls;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(calls == 480);
  CHECK(wrongs == 0);
}

TEST_CASE("the host cache over it is exact with room for few rows") {
  const Directory d;
  const std::vector<Oracle> tables{make_oracle("users", 1, 6000, 64, false),
                                   make_oracle("items", 2, 6000, 64, true),
                                   make_oracle("pairs", 3, 2000, 16, true)};
  load(d.tables, tables, 3000);
  auto source = open_store(d.tables, DPI_STORE_READ, tables);
  REQUIRE_MESSAGE(source.ok(), source.status().message());
  std::vector<CacheTable> rows(tables.size());
  for (size_t t = 0; t < tables.size(); ++t) {
    const auto dim = static_cast<int32_t>(tables[t].spec.row_bytes / 4);
    rows[t].row = {tables[t].spec.name, tables[t].spec.rows, dim, kernels::DType::kF32};
  }
  CacheOptions options;
  options.budget = 90000;  // about a tenth of the rows
  options.shards = 2;
  options.fetch.job_rows = 32;
  auto made = HostCache::make(rows, options, source->get(), {}, {});
  REQUIRE_MESSAGE(made.ok(), made.status().message());
  HostCache& cache = **made;
  auto reader = cache.make_reader(128).value();
  std::mt19937_64 rng(5);
  int64_t looked_at = 0;
  for (int call = 0; call < 400; ++call) {
    const auto t = static_cast<int32_t>(rng() % tables.size());
    const Oracle& o = tables[static_cast<size_t>(t)];
    std::vector<int64_t> keys = some_keys(o, 1 + rng() % 60, rng);
    keys.push_back(keys.front());  // of callers' keys some are equal
    std::vector<int32_t> places(keys.size(), -7);
    const CacheLookup lookup{t, keys.data(), static_cast<int64_t>(keys.size()), places.data()};
    const Status s = cache.acquire(*reader, {&lookup, 1}, 0);
    REQUIRE_MESSAGE(s.ok(), s.message());
    const auto view = cache.view(t);
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto* row = static_cast<const std::byte*>(view.base) + places[i] * view.row_bytes;
      const bool present = o.present.count(keys[i]) != 0;
      CHECK((present ? o.is_row(keys[i], row) : places[i] == cache.default_place(t)));
      ++looked_at;
    }
    cache.release(*reader);
  }
  CHECK(looked_at > 8000);
}

TEST_CASE("a table that is dropped is there no more, and can be loaded again") {
  const Directory d;
  const std::vector<Oracle> tables{make_oracle("users", 1, 3000, 64, false),
                                   make_oracle("items", 2, 500, 16, true)};
  load(d.tables, tables);
  auto reader = open_store(d.tables, DPI_STORE_READ, tables);
  REQUIRE(reader.ok());
  {
    auto writer = open_store(d.tables, DPI_STORE_WRITE, tables);
    REQUIRE_MESSAGE(writer.ok(), writer.status().message());
    REQUIRE((*writer)->drop(0).ok());
    CHECK((*writer)->stat(0).status().code() == Code::kNotFound);
    CHECK((*writer)->complete(0).code() == Code::kNotFound);
    CHECK(fetch(**writer, 0, tables[0], {1}).status.code() == Code::kNotFound);
  }
  // Who had it open reads its rows or fails.
  const Fetched kept = fetch(**reader, 0, tables[0], tables[0].keys);
  CHECK((!kept.status.ok() || wrong(kept, tables[0], tables[0].keys) == 0));
  const auto again = open_store(d.tables, DPI_STORE_READ, tables);
  CHECK(again.status().code() == Code::kNotFound);
  CHECK(again.status().message().find(
            "table 'users' of content 000000000000... is not there; `dpi store load`") != std::string::npos);
  auto other = open_store(d.tables, DPI_STORE_READ, {tables[1]});
  REQUIRE_MESSAGE(other.ok(), other.status().message());
  CHECK(wrong(fetch(**other, 0, tables[1], tables[1].keys), tables[1], tables[1].keys) == 0);
  load(d.tables, tables);
  auto back = open_store(d.tables, DPI_STORE_READ, tables);
  REQUIRE_MESSAGE(back.ok(), back.status().message());
  CHECK(wrong(fetch(**back, 0, tables[0], tables[0].keys), tables[0], tables[0].keys) == 0);
}

}  // namespace dpi::test::round_trip_test
