// Rows leave the host tier at any moment of what the device's cache does: before, between and after any two
// of its calls. Whatever leaves then, what the device's tags say is true: each names a row that is held, in a
// line of its own set that has this row's bytes. And what no tag names is free, or it would never have a line
// again.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>

#include "device_cache_world.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::device_leaving_test {
namespace {

/// Tags of a size class that say what is not so, as the device has them now.
int false_tags(const Cache& c, const DeviceCache& copies, int32_t size_class) {
  const kernels::RowCache& cache = *copies.cache(size_class);
  CopiedPlaces& copied = *c.cache->copied(size_class);
  const auto stride = c.cache->plan().classes[static_cast<size_t>(size_class)].stride;
  const std::byte* const rows = c.cache->first_row(size_class);
  const auto* const lines =
      reinterpret_cast<const std::byte*>(reinterpret_cast<uintptr_t>(rows) + cache.delta);
  int wrong = 0;
  for (uint32_t line = 0; line < cache.sets * kernels::kCacheWays; ++line) {
    if (cache.tags[line] == 0) continue;
    const uint32_t row = cache.tags[line] - 1;
    const bool in_set = row < static_cast<uint32_t>(copied.rows()) &&
                        kernels::cache_set(row, cache.sets) == line / kernels::kCacheWays;
    const bool free = in_set && copied.hold(static_cast<int32_t>(row));
    if (free) static_cast<void>(copied.let_go(static_cast<int32_t>(row)));
    const auto bytes = static_cast<size_t>(stride);
    const bool same = in_set && std::memcmp(lines + line * bytes, rows + row * bytes, bytes) == 0;
    wrong += in_set && !free && same ? 0 : 1;
  }
  return wrong;
}

/// Of the rows of a table that are in the tier: those that no tag names and yet are held. Nothing is under
/// way.
int held_in_vain(Cache& c, const DeviceCache& copies, int32_t table) {
  const int32_t size_class = c.cache->size_class(table);
  const kernels::RowCache& cache = *copies.cache(size_class);
  CopiedPlaces& copied = *c.cache->copied(size_class);
  std::vector<int64_t> keys;
  for (const WarmKey& k : c.cache->warm_keys(table)) keys.push_back(k.key);
  const HostCache::Reader reader = c.reader();
  std::vector<int32_t> places;
  REQUIRE(c.get(*reader, table, keys, &places).ok());
  int n = 0;
  for (const int32_t row : places) {
    const uint32_t* const end = cache.tags + cache.sets * kernels::kCacheWays;
    if (std::find(cache.tags, end, static_cast<uint32_t>(row) + 1) != end) continue;
    const bool free = copied.hold(row);
    n += free ? 0 : 1;
    if (free) static_cast<void>(copied.let_go(row));
  }
  c.cache->release(*reader);
  return n;
}

/// A tier of few places, of which calls ask for twice as many keys, one as often as another: so rows leave
/// that have lines, and rows whose copies are on their way. Calls come and go at every moment.
struct Leaving : World {
  explicit Leaving(unsigned seed) : World(seed, 32000, 9000) {
    REQUIRE(cache.cache->plan().classes.size() == 2);
    keys = 24;
    g_calls.around = [this] {
      look_at_tags();
      if (!quiet) come_and_go();
      look();
    };
  }
  void look_at_tags() {
    for (int32_t c = 0; c < 2; ++c) untrue += false_tags(cache, *copies, c);
  }
  /// Some calls, one after another, while nobody else is inside, so that places are used again at once.
  void come_and_go() {
    if (random() % 4 != 0) return;
    for (Holder& h : holders) {
      wrong += h.wrong_lines();
      if (!h.places.empty()) h.end(cache);
    }
    for (int i = 0; i < 12; ++i) call();
  }
  void call() {
    Holder& h = holders[random() % holders.size()];
    if (!h.places.empty()) h.end(cache);
    const int32_t table = tables[random() % tables.size()];
    std::vector<int64_t> asked;
    for (int32_t i = 0; i < keys; ++i) asked.push_back(1000 + static_cast<int64_t>(random() % 400));
    if (!h.begin(cache, table, std::move(asked))) {
      h.places.clear(), h.keys.clear();
      ++failed;
    }
    wrong += h.wrong_rows(cache, *copies);
    if (random() % 2 == 0 && h.reader->inside) h.end(cache);
  }
  void steps(int n) {
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < 4; ++k) call();
      steps_failed += copies->step().ok() ? 0 : 1;
      look_at_tags();
    }
  }
  /// These tables are asked for until sets are to go there; nobody looks meanwhile.
  void until_it_pays(std::vector<int32_t> of) {
    tables = std::move(of);
    quiet = true;
    bool pays = false;
    for (int i = 0; i < 200 && !pays; ++i) {
      steps(20);
      pays = copies->weigh();
    }
    REQUIRE(pays);
    quiet = false;
  }
  /// Nothing is under way any more, and what no line has is free to get one.
  void rest() {
    quiet = true;
    for (Holder& h : holders) h.end(cache);
    for (int i = 0; i < 12; ++i) REQUIRE(copies->step().ok());
    for (int32_t t = 0; t < 3; ++t) CHECK(held_in_vain(cache, *copies, t) == 0);
    for (int32_t c = 0; c < 2; ++c) {  // every place is somewhere
      const Shard::Fill fill = cache.cache->fill(c);
      CHECK(fill.linked + fill.free + fill.waiting + fill.in_flight ==
            cache.cache->plan().classes[static_cast<size_t>(c)].places());
    }
  }
  int64_t untrue = 0;
};

}  // namespace

TEST_CASE("device leaving: whatever rows leave between any two calls of the device, its tags are true") {
  for (unsigned seed = 1; seed <= some_of(4u); ++seed) {
    CAPTURE(seed);
    Leaving w(seed);
    w.steps(400);
    CHECK(w.untrue == 0);
    CHECK(w.wrong == 0);
    CHECK(w.steps_failed == 0);
    const device_cache::Counts n = w.copies->counts();
    MESSAGE("filled " << n.filled << ", cleared " << n.cleared << ", found " << w.found << ", refused "
                      << w.failed);
    CHECK(n.filled > 400);
    CHECK(n.cleared > 400);
    CHECK(w.found > 1000);
    w.rest();
  }
}

TEST_CASE("device leaving: the same while any call of the device fails") {
  for (int64_t n = 0; n < some_of(24); ++n) {
    CAPTURE(n);
    Leaving w(static_cast<unsigned>(n) + 100);
    w.steps(40);
    g_calls.made = 0;
    g_calls.fail_at = n;
    g_calls.fails = n % 3 == 0 ? 20 : 1;
    w.steps(60);
    CHECK(w.steps_failed > 0);
    CHECK(w.untrue == 0);
    CHECK(w.wrong == 0);
    w.rest();
  }
}

TEST_CASE("device leaving: the same while sets go from class to class, with and without calls that fail") {
  for (unsigned seed = 1; seed <= some_of(6u); ++seed) {
    CAPTURE(seed);
    Leaving w(seed);
    uint64_t moved = 0;
    for (const std::vector<int32_t>& tables : {std::vector<int32_t>{1}, {0, 2}, {1}}) {
      w.until_it_pays(tables);
      g_calls.made = 0;
      g_calls.fail_at = seed % 2 == 0 ? static_cast<int64_t>(seed) : -1;
      w.tables = {0, 1, 2};
      w.steps(60);
      CHECK(w.copies->counts().moved == ++moved);
      CHECK(w.untrue == 0);
      CHECK(w.wrong == 0);
      w.rest();
      w.quiet = false;
    }
    CHECK(w.steps_failed == (seed % 2 == 0 ? 3 : 0));
  }
}

TEST_CASE("device leaving: rows that an update has changed leave the device, and no call gets half of one") {
  g_calls.around = nullptr;
  g_calls.fail_at = -1;
  CacheOptions options = with_lines(60000, 20000);
  options.fetch.fetch_ns = 10'000'000;
  Cache c(options, MissPolicy::kExact, {}, true);
  const auto copies = DeviceCache::make(kDevice, nullptr, c.cache.get()).value();
  Holder h(c);
  const std::vector<int64_t> keys = iota(100, 40);
  // How many rows are those of the first version, and of the second; all that there are lie on the device.
  const auto versions = [&] {
    std::array<int, 3> n{};
    REQUIRE(h.begin(c, 1, keys));
    const std::vector<float> got = look_up(c, *copies, 1, h.places);
    for (size_t i = 0; i < keys.size(); ++i) {
      int of[2] = {};
      for (int64_t e = 0; e < kDims[1]; ++e) {
        const float more =
            got[i * static_cast<size_t>(kDims[1]) + static_cast<size_t>(e)] - element(1, keys[i], e);
        of[0] += more == 0 ? 1 : 0;
        of[1] += more == FakeSource::kUpdated ? 1 : 0;
      }
      ++n[of[0] == kDims[1] ? 0 : of[1] == kDims[1] ? 1 : 2];
    }
    h.find_tags(c, *copies);
    h.end(c);
    return n;
  };
  CHECK(versions() == std::array<int, 3>{40, 0, 0});
  REQUIRE(copies->prefill().ok());
  REQUIRE(h.begin(c, 1, keys));
  h.find_tags(c, *copies);
  CHECK(h.seen.size() > 30);
  h.end(c);
  c.source.updates = 1;
  bool all = false;
  for (int i = 0; i < 2000 && !all; ++i) {
    REQUIRE(copies->step().ok());
    const std::array<int, 3> now = versions();
    CHECK(now[2] == 0);
    all = now[1] == 40;
    for (int32_t size_class = 0; size_class < 2; ++size_class) CHECK(false_tags(c, *copies, size_class) == 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  CHECK(all);
}

TEST_CASE("device leaving: what was started before a wait that failed has nothing else put under it") {
  World w(1, 60000, 12000);
  g_calls.around = nullptr;
  constexpr int64_t kFew = 12;
  const auto warm = [&](int32_t table) {
    REQUIRE(w.cache.cache->size_class(table) == table);
    std::vector<int32_t> places;
    REQUIRE(w.cache.get(*w.holders[0].reader, table, iota(50, kFew), &places).ok());
    for (const int32_t place : places) {
      for (int i = 0; i < 3; ++i) static_cast<void>(w.cache.cache->copied(table)->saw(place));
    }
    w.holders[0].end(w.cache);
  };
  warm(1);
  REQUIRE(w.copies->step().ok());  // lines for them are chosen
  warm(0);
  g_calls.made = 0;
  g_calls.fail_at = 3;  // rows, a wait, tags, and the wait for these: nobody knows whether they are written
  CHECK(!w.copies->step().ok());
  for (int i = 0; i < 4; ++i) {
    REQUIRE(w.copies->step().ok());
    for (int32_t c = 0; c < 2; ++c) CHECK(false_tags(w.cache, *w.copies, c) == 0);
  }
  CHECK(w.copies->counts().filled == 2 * kFew);
  for (int32_t t = 0; t < 2; ++t) {
    REQUIRE(w.holders[0].begin(w.cache, t, iota(50, kFew)));
    w.holders[0].find_tags(w.cache, *w.copies);
    CHECK(w.holders[0].seen.size() == kFew);
    w.holders[0].end(w.cache);
  }
}

}  // namespace dpi::test::device_leaving_test
