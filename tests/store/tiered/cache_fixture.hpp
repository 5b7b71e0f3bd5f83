// A small host cache over a FakeSource: three tables of floats in two size classes.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "store/tiered/fake_source.hpp"
#include "store/tiered/host_cache.hpp"

namespace dpi::test {

using namespace dpi::tiered;

constexpr int64_t kDims[] = {4, 16, 4};

struct Cache {
  explicit Cache(CacheOptions options, MissPolicy policy = MissPolicy::kExact, FinishRow finish = {},
                 bool updated = false) {
    if (updated) source.updates = 0;
    for (size_t t = 0; t < 3; ++t) {
      CacheTable table;
      table.row = {"t" + std::to_string(t), 0, static_cast<int32_t>(kDims[t]), kernels::DType::kF32};
      table.policy = policy;
      table.stale = updated;
      const float fallback[] = {-1.0f - static_cast<float>(t), 8.0f};
      table.default_row.resize(sizeof fallback);
      std::memcpy(table.default_row.data(), fallback, sizeof fallback);
      tables.push_back(table);
    }
    auto made = HostCache::make(tables, options, &source, finish, {});
    REQUIRE_MESSAGE(made.ok(), made.status().message());
    cache = std::move(made).value();
  }
  HostCache::Reader reader(int64_t max_keys = 4096) { return cache->make_reader(max_keys).value(); }

  /// Is what the place holds the row of the key, or the default row when it is absent?
  bool right(int32_t table, int64_t key, int32_t place) const {
    const auto v = cache->view(table);
    if (place < 0 || place >= v.rows) return false;
    const auto* row = reinterpret_cast<const float*>(static_cast<const char*>(v.base) + place * v.row_bytes);
    if (is_absent(key)) return place == cache->default_place(table) && is_default(table, row);
    for (int64_t e = 0; e < kDims[table]; ++e) {
      if (!(row[e] == element(table, key, e))) return false;
    }
    return true;
  }
  bool is_default(int32_t table, const float* row) const {
    return row[0] == -1.0f - static_cast<float>(table) && row[1] == 8.0f && row[3] == 0.0f;
  }
  bool is_default(int32_t table, int32_t place) const { return place == cache->default_place(table); }

  /// One column of one table, acquired, checked and released.
  Status get(CacheReader& r, int32_t table, const std::vector<int64_t>& keys,
             std::vector<int32_t>* places = nullptr, uint64_t deadline_ns = 0) const {
    std::vector<int32_t> own(keys.size(), -99);
    std::vector<int32_t>& to = places != nullptr ? *places : own;
    to.assign(keys.size(), -99);
    const CacheLookup lookup{table, keys.data(), static_cast<int64_t>(keys.size()), to.data()};
    Status s = cache->acquire(r, {&lookup, 1}, deadline_ns);
    if (!s.ok() || places != nullptr) return s;
    for (size_t i = 0; i < keys.size(); ++i) CHECK(right(table, keys[i], to[i]));
    cache->release(r);
    return s;
  }

  std::vector<CacheTable> tables;
  FakeSource source{{kDims[0], kDims[1], kDims[2]}};
  std::unique_ptr<HostCache> cache;
};

inline CacheOptions small_options(uint64_t budget = 200000) {
  CacheOptions o;
  o.budget = budget;
  o.fetch.job_rows = 64;
  o.place_wait_ns = 300'000'000;
  return o;
}

inline std::vector<int64_t> iota(int64_t first, int64_t n) {
  std::vector<int64_t> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(first + i);
  return v;
}

}  // namespace dpi::test
