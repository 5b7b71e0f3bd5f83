// A cache on a device of emulated streams in plain memory, over a small host tier, and readers that come and
// go and look at it before and after every call of the device.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "kernels/cuda/lookup/lookup.hpp"
#include "kernels/cuda/lookup/row_cache.hpp"
#include "kernels/emu/device_emu.hpp"
#include "store/device_cache/device_cache.hpp"
#include "store/tiered/cache_fixture.hpp"

namespace dpi::test {

using device_cache::DeviceCache;
namespace cuda = kernels::cuda;

// ---- a device of emulated streams in plain memory, which tells of each call and fails where it is told to

struct Calls {
  std::function<void()> around;  // before and after each
  std::atomic<int64_t> made{0};
  int32_t priority = -1;            // of the last stream
  int64_t most_changes = 0;         // of one call
  int64_t fail_at = -1, fails = 1;  // the number of the first call that fails, -1 = none; how many do
};
inline Calls g_calls;

inline emu::Stream* stream_of(dpi_backend_stream* s) { return reinterpret_cast<emu::Stream*>(s); }

template <class Call>
int32_t watched(const Call& call, dpi_backend_error* err) {
  if (g_calls.around) g_calls.around();
  const int64_t number = g_calls.made++;
  const bool fails =
      g_calls.fail_at >= 0 && number >= g_calls.fail_at && number < g_calls.fail_at + g_calls.fails;
  const int code = fails ? 719 : call();
  if (g_calls.around) g_calls.around();
  if (code != 0) std::snprintf(err->message, sizeof err->message, "call failed with %d", code);
  return code == 0 ? 0 : static_cast<int32_t>(Code::kIo);
}

inline dpi_backend_api plain_device() {
  dpi_backend_api a{};
  a.alloc = [](dpi_backend_device*, size_t bytes, int32_t, void** out, dpi_backend_error*) {
    *out = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    std::memset(*out, 0xFF, bytes);  // NaN
    return int32_t{0};
  };
  a.free = [](dpi_backend_device*, void* p, int32_t) { std::free(p); };
  a.upload = [](dpi_backend_device*, void* dst, const void* src, size_t bytes, dpi_backend_error*) {
    std::memcpy(dst, src, bytes);
    return int32_t{0};
  };
  a.stream_create = [](dpi_backend_device*, int32_t priority, dpi_backend_stream** out, dpi_backend_error*) {
    g_calls.priority = priority;
    return static_cast<int32_t>(emu::stream_create(reinterpret_cast<emu::Stream**>(out)));
  };
  a.stream_destroy = [](dpi_backend_device*, dpi_backend_stream* s) { emu::stream_destroy(stream_of(s)); };
  a.stream_synchronize = [](dpi_backend_stream* s, dpi_backend_error* err) {
    return watched([&] { return emu::stream_sync(stream_of(s)); }, err);
  };
  a.cache_rows = [](dpi_backend_stream* s, void* lines, const void* rows, size_t row_bytes,
                    const kernels::CacheChange* changes, int32_t n, dpi_backend_error* err) {
    g_calls.most_changes = std::max(g_calls.most_changes, int64_t{n});
    return watched(
        [&] {
          return cuda::copy_cache_rows(static_cast<char*>(lines), static_cast<const char*>(rows),
                                       static_cast<int64_t>(row_bytes), changes, n, stream_of(s));
        },
        err);
  };
  a.cache_tags = [](dpi_backend_stream* s, uint32_t* tags, const kernels::CacheChange* changes, int32_t n,
                    dpi_backend_error* err) {
    return watched([&] { return cuda::set_cache_tags(tags, changes, n, stream_of(s)); }, err);
  };
  return a;
}

inline const dpi_backend_api kDevice = plain_device();

// ---- readers

inline CacheOptions with_lines(uint64_t host, uint64_t device) {
  CacheOptions o = small_options(host);
  o.device_bytes = device;
  return o;
}

/// A call's lookup on the device: the rows of these places.
inline std::vector<float> look_up(const Cache& c, const DeviceCache& copies, int32_t table,
                                  const std::vector<int32_t>& places) {
  kernels::TableView view = c.cache->view(table);
  view.cache = copies.cache(c.cache->size_class(table));
  const auto n = static_cast<int64_t>(places.size());
  kernels::Operand input;
  input.bags = {places.data(), nullptr, nullptr, 1, n};
  kernels::LookupField field;
  field.out_col = 0;
  kernels::MultiLookupArgs a;
  a.attrs.fields = &field;
  a.attrs.n_fields = 1;
  a.inputs = &input;
  a.tables = &view;
  a.rows = n;
  std::vector<float> out(static_cast<size_t>(n * view.dim), -1.0f);
  a.out.data = out.data();
  a.out.rows = n;
  a.out.row_stride = view.dim;
  a.out.dims = {1, {view.dim}};
  emu::Stream* stream = nullptr;
  emu::stream_create(&stream);
  const int started = cuda::multi_lookup(a, {}, stream);
  const int ran = emu::stream_sync(stream);
  emu::stream_destroy(stream);
  if (started != 0 || ran != 0) out.assign(out.size(), -2.0f);
  return out;
}

/// A call that holds rows for a while.
struct Holder {
  HostCache::Reader reader;
  int32_t table = 0;
  std::vector<int64_t> keys;
  std::vector<int32_t> places;
  struct Seen {
    const float* line;
    int64_t key;
  };
  std::vector<Seen> seen;  // tags that it has found since it began

  explicit Holder(const Cache& c) : reader(c.cache->make_reader(4096).value()) {}

  bool begin(const Cache& c, int32_t of, std::vector<int64_t> asked, bool may_wait = false) {
    table = of;
    keys = std::move(asked);
    places.assign(keys.size(), -1);
    seen.clear();
    const CacheLookup lookup{table, keys.data(), static_cast<int64_t>(keys.size()), places.data()};
    return c.cache->acquire(*reader, {&lookup, 1}, 0, may_wait).ok();
  }
  void end(const Cache& c) {
    c.cache->release(*reader);
    seen.clear();
    keys.clear();
    places.clear();
  }
  /// As a kernel does that is slow between a tag and its line.
  void find_tags(const Cache& c, const DeviceCache& copies) {
    const kernels::RowCache* const cache = copies.cache(c.cache->size_class(table));
    const kernels::TableView view = c.cache->view(table);
    for (size_t i = 0; i < places.size(); ++i) {
      const auto row = static_cast<uint32_t>(places[i]);
      if (cache->sets == 0) return;
      const uint32_t first = kernels::cache_set(row, cache->sets) * kernels::kCacheWays;
      for (uint32_t line = first; line < first + kernels::kCacheWays; ++line) {
        if (__atomic_load_n(cache->tags + line, __ATOMIC_ACQUIRE) != row + 1) continue;
        const auto at = reinterpret_cast<uintptr_t>(view.base) + cache->delta +
                        line * static_cast<uint64_t>(view.row_bytes);
        seen.push_back({reinterpret_cast<const float*>(at), keys[i]});
      }
    }
  }
  int wrong_lines() const {
    int wrong = 0;
    for (const Seen& s : seen) {
      for (int64_t e = 0; e < kDims[table]; ++e) wrong += s.line[e] == element(table, s.key, e) ? 0 : 1;
    }
    return wrong;
  }
  int wrong_rows(const Cache& c, const DeviceCache& copies) const {
    if (places.empty()) return 0;
    const std::vector<float> got = look_up(c, copies, table, places);
    int wrong = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      for (int64_t e = 0; e < kDims[table]; ++e) {
        const float expected = element(table, keys[i], e);
        wrong += got[i * static_cast<size_t>(kDims[table]) + static_cast<size_t>(e)] == expected ? 0 : 1;
      }
    }
    return wrong;
  }
};

/// Keys of which a few are asked for all the time.
inline std::vector<int64_t> some_keys(std::mt19937& random, int32_t n, int64_t shift) {
  std::vector<int64_t> keys;
  for (int32_t i = 0; i < n; ++i) {
    const int64_t key = random() % 4 != 0 ? 1 + random() % 150 : 1 + random() % 3000;
    keys.push_back(key + shift == 7 ? 8 : key + shift);
  }
  return keys;
}

/// Holders that come and go around a cache that steps; how much was wrong.
struct World {
  explicit World(unsigned seed, uint64_t host = 100000, uint64_t device = 8000,
                 const std::vector<uint32_t>& split = {})
      : random(seed), cache(with_lines(host, device)) {
    g_calls.around = nullptr;
    g_calls.fail_at = -1;
    auto made = DeviceCache::make(kDevice, nullptr, cache.cache.get(), split);
    REQUIRE_MESSAGE(made.ok(), made.status().message());
    copies = std::move(made).value();
    for (int i = 0; i < 3; ++i) holders.emplace_back(cache);
    emu::seed(seed);
    g_calls.around = [this] { look(); };
  }
  ~World() { g_calls.around = nullptr; }

  void look() {
    if (quiet) return;
    for (Holder& h : holders) {
      wrong += h.wrong_lines();
      if (!h.places.empty()) h.find_tags(cache, *copies);
      found += static_cast<int64_t>(h.seen.size());
      if (random() % 4 == 0) wrong += h.wrong_rows(cache, *copies);
    }
  }
  void traffic(int64_t shift) {
    for (Holder& h : holders) {
      if (h.places.empty() || random() % 2 == 0) continue;
      look();
      h.end(cache);
    }
    Holder& h = holders[random() % holders.size()];
    if (!h.places.empty()) h.end(cache);
    const int32_t table = tables[random() % tables.size()];
    if (random() % 4 != 0) failed += h.begin(cache, table, some_keys(random, keys, shift)) ? 0 : 1;
    if (!h.places.empty() && !h.reader->inside) h.places.clear(), h.keys.clear();
  }
  void run(int rounds, int64_t shift = 0) {
    for (int i = 0; i < rounds; ++i) {
      traffic(shift);
      if (!copies->step().ok()) ++steps_failed;
    }
  }

  std::vector<int32_t> tables = {0, 1, 2};  // that calls ask
  int32_t keys = 33;                        // for so many
  bool quiet = false;                       // nobody looks
  std::mt19937 random;
  Cache cache;
  std::unique_ptr<DeviceCache> copies;
  std::vector<Holder> holders;
  int64_t wrong = 0, found = 0, failed = 0, steps_failed = 0;
};

}  // namespace dpi::test
