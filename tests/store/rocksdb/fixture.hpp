// RocksDB directories for tests: tables whose rows follow from their keys, so that the oracle needs no store,
// written and opened through the plugin as the engine does it.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/tiered/plugin_source.hpp"

namespace dpi::test {

using namespace dpi::tiered;

/// Byte e of the row of a key, in a table of this seed.
inline std::byte row_byte(uint64_t seed, int64_t key, int64_t e) {
  uint64_t h = (static_cast<uint64_t>(key) + seed * 0x9e3779b97f4a7c15u) ^ (static_cast<uint64_t>(e) << 40);
  h = (h ^ (h >> 31)) * 0xd6e8feb86659fd93u;
  h = (h ^ (h >> 29)) * 0x9e6c63d0876a9a47u;
  return static_cast<std::byte>(h >> 56);
}

/// A table and all that should be in it.
struct Oracle {
  StoredTable spec;
  uint64_t seed = 0;
  std::vector<int64_t> keys;  // in the order in which they are written
  std::set<int64_t> present;

  std::vector<std::byte> rows(size_t first, size_t n) const {
    std::vector<std::byte> bytes(n * static_cast<size_t>(spec.row_bytes));
    for (size_t i = 0; i < n; ++i)
      fill(keys[first + i], bytes.data() + i * static_cast<size_t>(spec.row_bytes));
    return bytes;
  }
  void fill(int64_t key, std::byte* row) const {
    for (int64_t e = 0; e < spec.row_bytes; ++e) row[e] = row_byte(seed, key, e);
  }
  bool is_row(int64_t key, const std::byte* row) const {
    for (int64_t e = 0; e < spec.row_bytes; ++e) {
      if (row[e] != row_byte(seed, key, e)) return false;
    }
    return true;
  }
  /// What a loader would pass beside the first n rows.
  uint64_t digest(size_t n) const { return seed * 1'000'003 + n; }
};

inline std::string content_of(uint64_t seed) {
  std::string text(64, '0');
  for (size_t i = 0; i < 16; ++i) text[63 - i] = "0123456789abcdef"[(seed >> (4 * i)) & 15];
  return text;
}

/// Row numbers, or random keys with the odd ones among them, in random order.
inline Oracle make_oracle(const std::string& name, uint64_t seed, int64_t rows, int64_t row_bytes,
                          bool keyed) {
  Oracle o;
  o.spec = {name, content_of(seed), rows, row_bytes, static_cast<int32_t>(row_bytes), 3, keyed};
  o.seed = seed;
  std::mt19937_64 rng(seed);
  if (!keyed) {
    for (int64_t i = 0; i < rows; ++i) o.present.insert(i);
    o.keys.assign(o.present.begin(), o.present.end());
    return o;
  }
  for (const int64_t odd : {INT64_MIN, int64_t{-1}, int64_t{0}, INT64_MAX, INT64_MIN + 1}) {
    if (static_cast<int64_t>(o.present.size()) < rows) o.present.insert(odd);
  }
  while (static_cast<int64_t>(o.present.size()) < rows) o.present.insert(static_cast<int64_t>(rng()));
  o.keys.assign(o.present.begin(), o.present.end());
  std::shuffle(o.keys.begin(), o.keys.end(), rng);
  return o;
}

struct Directory {
  Directory() {
    path = (std::filesystem::temp_directory_path() / "dpi_rocksdb_XXXXXX").string();
    REQUIRE(mkdtemp(path.data()) != nullptr);
    tables = path + "/tables";
  }
  ~Directory() { std::filesystem::remove_all(path); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string path, tables;
};

inline const store::StorePlugin& plugin() {
  static const Result<const store::StorePlugin*> found =
      store::find_store_plugin("rocksdb", DPI_TEST_STORE_PLUGINS);
  REQUIRE_MESSAGE(found.ok(), found.status().message());
  return **found;
}

inline Result<std::unique_ptr<PluginSource>> open_store(
    const std::string& path, dpi_store_mode mode, const std::vector<Oracle>& tables,
    const std::vector<std::pair<std::string, std::string>>& settings = {}) {
  StoreRequest request;
  request.mode = mode;
  request.settings = settings;
  request.settings.emplace_back("path", path);
  for (const Oracle& o : tables) request.tables.push_back(o.spec);
  request.threads = 8;
  return PluginSource::open(plugin(), request);
}

/// Goes on with a table from where it is until `upto` rows are written.
inline Status write_rows(PluginSource& source, int32_t table, const Oracle& o, size_t upto, size_t batch) {
  DPI_ASSIGN_OR_RETURN(const dpi_store_stat stat, source.stat(table));
  for (auto done = static_cast<size_t>(stat.rows); done < upto;) {
    const size_t n = std::min(batch, upto - done);
    const std::span keys(o.keys.data() + done, n);
    DPI_RETURN_IF_ERROR(source.write(table, keys, o.rows(done, n), o.digest(done + n)));
    done += n;
  }
  return {};
}

/// All tables, written and completed.
inline void load(const std::string& path, const std::vector<Oracle>& tables, size_t batch = 700) {
  auto source = open_store(path, DPI_STORE_WRITE, tables);
  REQUIRE_MESSAGE(source.ok(), source.status().message());
  for (size_t t = 0; t < tables.size(); ++t) {
    const auto table = static_cast<int32_t>(t);
    const Status s = write_rows(**source, table, tables[t], tables[t].keys.size(), batch);
    REQUIRE_MESSAGE(s.ok(), s.message());
    const Status done = (*source)->complete(table);
    REQUIRE_MESSAGE(done.ok(), done.message());
  }
}

struct Fetched {
  Status status;
  std::vector<std::byte> rows;
  std::vector<uint64_t> found;
  bool has(size_t i) const { return (found[i / 64] >> (i % 64) & 1) != 0; }
};

inline Fetched fetch(RowSource& source, int32_t table, const Oracle& o, const std::vector<int64_t>& keys,
                     uint64_t deadline_ns = 0) {
  Fetched f;
  const auto bytes = static_cast<size_t>(o.spec.row_bytes);
  f.rows.assign(keys.size() * bytes, std::byte{0xEE});
  f.found.assign((keys.size() + 63) / 64 + 1, 0);
  std::vector<std::byte*> to;
  for (size_t i = 0; i < keys.size(); ++i) to.push_back(f.rows.data() + i * bytes);
  f.status = source.fetch({table, keys, to.data(), f.found.data(), deadline_ns});
  return f;
}

/// How many of the keys were answered other than the oracle has it: rows, absence, bytes of absent rows.
inline int64_t wrong(const Fetched& f, const Oracle& o, const std::vector<int64_t>& keys) {
  int64_t n = 0;
  const auto bytes = static_cast<size_t>(o.spec.row_bytes);
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::byte* row = f.rows.data() + i * bytes;
    const bool present = o.present.count(keys[i]) != 0;
    const bool untouched = std::all_of(row, row + bytes, [](std::byte b) { return b == std::byte{0xEE}; });
    n += f.has(i) != present || (present ? !o.is_row(keys[i], row) : !untouched) ? 1 : 0;
  }
  return n + (f.found.back() != 0 ? 1 : 0);
}

/// n distinct keys, about one in four of them absent.
inline std::vector<int64_t> some_keys(const Oracle& o, size_t n, std::mt19937_64& rng) {
  std::set<int64_t> chosen;
  for (size_t tries = 0; chosen.size() < n && tries < 4 * n + 8; ++tries) {
    if (rng() % 4 != 0 && !o.keys.empty()) {
      chosen.insert(o.keys[rng() % o.keys.size()]);
    } else {
      chosen.insert(static_cast<int64_t>(rng() % 2 != 0 ? rng() : rng() % 20000));
    }
  }
  std::vector<int64_t> keys(chosen.begin(), chosen.end());
  std::shuffle(keys.begin(), keys.end(), rng);
  return keys;
}

}  // namespace dpi::test
