// How the device's cache shares its budget out among size classes: near to the best that can be known when
// two tables are asked for in different ways, and exact while sets go from one class to another.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "device_cache_world.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::device_split_test {
namespace {

using device_cache::ClassWorth;
using device_cache::hits_with;
using device_cache::split_by_hits;

/// Lookups of one table: rank r of n is asked for in proportion to (r + 1)^-alpha.
struct Zipf {
  std::vector<double> up_to;  // per rank: the share of it and all hotter ones
  Zipf(int64_t n, double alpha) : up_to(static_cast<size_t>(n)) {
    double sum = 0;
    for (size_t rank = 0; rank < up_to.size(); ++rank)
      up_to[rank] = sum += std::pow(static_cast<double>(rank + 1), -alpha);
    for (double& share : up_to) share /= sum;
  }
  int64_t draw(std::mt19937_64& random) const {
    const double u = std::uniform_real_distribution<double>(0, 1)(random);
    return 1000 + (std::lower_bound(up_to.begin(), up_to.end() - 1, u) - up_to.begin());
  }
  /// The share of lookups that so many lines would meet, if they held the hottest rows.
  double hits(int64_t lines) const {
    return lines <= 0 ? 0 : up_to[static_cast<size_t>(std::min<int64_t>(lines, std::ssize(up_to))) - 1];
  }
};

/// Tables 0 (rows of 16 bytes) and 1 (64 bytes), each asked for as often as the other.
struct TwoTables {
  Zipf of[2];
  std::mt19937_64 random{7};
  Cache cache;
  std::unique_ptr<DeviceCache> copies;

  TwoTables(double alpha_0, double alpha_1, uint64_t device)
      : of{Zipf(4000, alpha_0), Zipf(4000, alpha_1)}, cache(with_lines(2000000, device)) {
    g_calls.around = nullptr;
    g_calls.fail_at = -1;
    copies = DeviceCache::make(kDevice, nullptr, cache.cache.get()).value();
  }
  size_t number(int32_t table) const { return static_cast<size_t>(cache.cache->size_class(table)); }
  void calls(int n) {
    const HostCache::Reader r = cache.reader();
    for (int call = 0; call < n; ++call) {
      std::vector<int64_t> keys(1024);
      for (int64_t& key : keys) key = of[call % 2].draw(random);
      std::vector<int32_t> places;
      REQUIRE(cache.get(*r, call % 2, keys, &places).ok());
      cache.cache->release(*r);
      if (call % 4 == 3) REQUIRE(copies->step().ok());
    }
  }
  /// Of all lookups, when each class holds its hottest rows.
  double ideal(const std::vector<uint32_t>& sets) const {
    double hits = 0;
    for (int32_t t = 0; t < 2; ++t) hits += of[t].hits(int64_t{sets[number(t)]} * kernels::kCacheWays) / 2;
    return hits;
  }
  /// The most that any split gives: all of them are tried.
  double best() const {
    const LinePlan& plan = cache.cache->lines();
    const LinePlan::Class &a = plan.classes[number(0)], &b = plan.classes[number(1)];
    double best = 0;
    for (uint32_t n = 0; n <= a.most_sets && n * a.set_bytes <= plan.room; ++n) {
      std::vector<uint32_t> sets(2);
      sets[number(0)] = n;
      sets[number(1)] =
          static_cast<uint32_t>(std::min<int64_t>(b.most_sets, (plan.room - n * a.set_bytes) / b.set_bytes));
      best = std::max(best, ideal(sets));
    }
    return best;
  }
  /// What lookups do find, of samples from here on.
  double found(int n) {
    const auto count = [&] {
      HostCache::Sampled s;
      for (int32_t t = 0; t < 2; ++t) {
        const HostCache::Sampled of_table = cache.cache->sampled(t);
        s.all += of_table.all, s.held += of_table.held;
      }
      return s;
    };
    const HostCache::Sampled before = count();
    calls(n);
    const HostCache::Sampled after = count();
    return static_cast<double>(after.held - before.held) / static_cast<double>(after.all - before.all);
  }
};

}  // namespace

TEST_CASE("device split: two tables of different skew end near the best split that there is") {
  // {alpha of rows of 16 bytes, of rows of 64 bytes}
  for (const auto& [alpha_0, alpha_1] : {std::pair{0.4, 1.4}, std::pair{1.4, 0.4}, std::pair{1.05, 1.05}}) {
    CAPTURE(alpha_0);
    CAPTURE(alpha_1);
    TwoTables t(alpha_0, alpha_1, 60000);
    const double best = t.best(), first = t.ideal(t.copies->split());
    t.calls(400);
    const double found_first = t.found(200);
    for (int i = 0; i < 6; ++i) {
      t.calls(800);
      static_cast<void>(t.copies->weigh());
    }
    t.calls(800);
    const double last = t.ideal(t.copies->split()), found_last = t.found(200);
    MESSAGE("alpha " << alpha_0 << " and " << alpha_1 << ": best " << best << ", by bytes " << first
                     << ", now " << last << "; found " << found_first << ", now " << found_last << ", moved "
                     << t.copies->counts().moved);
    CHECK(last > 0.98 * best);
    CHECK(last >= first - 0.01);
    CHECK(t.copies->counts().moved <= 3);  // it comes to rest
    CHECK(found_last > found_first - 0.02);
    const LinePlan& plan = t.cache.cache->lines();
    int64_t spent = 0;
    for (size_t c = 0; c < 2; ++c) spent += t.copies->split()[c] * plan.classes[c].set_bytes;
    CHECK(spent <= plan.room);
    CHECK(spent > plan.room - 2000);
  }
}

namespace {

/// Calls ask these tables only, until sets are to go there.
void until_it_pays(World* w, std::vector<int32_t> tables, int64_t shift) {
  w->tables = std::move(tables);
  w->keys = 128;
  w->quiet = true;
  bool pays = false;
  for (int i = 0; i < 60 && !pays; ++i) {
    w->run(60, shift);
    pays = w->copies->weigh();
  }
  REQUIRE(pays);
  w->quiet = false;
  w->keys = 33;
}

}  // namespace

TEST_CASE("device split: calls read their own rows at every moment while sets go from class to class") {
  for (unsigned seed = 1; seed <= some_of(3u); ++seed) {
    CAPTURE(seed);
    World w(seed, 100000, 12000);
    std::vector<uint32_t> before = w.copies->split();
    uint64_t moved = 0;
    for (const std::vector<int32_t>& tables : {std::vector<int32_t>{1}, {0, 2}, {1}}) {
      until_it_pays(&w, tables, static_cast<int64_t>(moved) * 1000);
      w.run(150, static_cast<int64_t>(moved) * 1000);
      CHECK(w.copies->counts().moved == ++moved);
      CHECK(w.copies->split() != before);
      before = w.copies->split();
    }
    CHECK(w.wrong == 0);
    CHECK(w.found > 1000);
    CHECK(w.steps_failed == 0);
  }
}

TEST_CASE("device split: any call of the device may fail while sets go from class to class") {
  for (int64_t n = 0; n < some_of(12); ++n) {
    CAPTURE(n);
    World w(static_cast<unsigned>(n) + 50, 100000, 12000);
    until_it_pays(&w, {1}, 0);
    g_calls.made = 0;
    g_calls.fail_at = n;
    g_calls.fails = n % 3 == 0 ? 9 : 1;
    w.run(150);
    CHECK(w.wrong == 0);
    CHECK(w.steps_failed > 0);
    CHECK(w.copies->counts().moved == 1);
    for (Holder& h : w.holders) h.end(w.cache);
    for (int i = 0; i < 4; ++i) CHECK(w.copies->step().ok());
    for (int32_t c = 0; c < 2; ++c) {
      const Shard::Fill fill = w.cache.cache->fill(c);
      CHECK(fill.linked + fill.free + fill.waiting + fill.in_flight ==
            w.cache.cache->plan().classes[static_cast<size_t>(c)].places());
    }
  }
}

TEST_CASE("device split: a cache begins as the one before it was shared out, where that fits") {
  World w(1, 100000, 12000);
  until_it_pays(&w, {1}, 0);
  const std::vector<uint32_t> at_first = w.copies->split();
  w.run(150);
  const std::vector<uint32_t> learned = w.copies->split();
  REQUIRE(w.copies->counts().moved == 1);
  REQUIRE(learned != at_first);
  w.copies.reset();
  g_calls.around = nullptr;
  const auto split_of = [](uint64_t device, const std::vector<uint32_t>& split) {
    const Cache cache(with_lines(100000, device));
    return DeviceCache::make(kDevice, nullptr, cache.cache.get(), split).value()->split();
  };
  CHECK(split_of(12000, learned) == learned);
  CHECK(split_of(12000, {}) == at_first);
  CHECK(split_of(12000, {learned[0]}) == at_first);                    // of other classes
  CHECK(split_of(12000, {learned[0], learned[1] + 100}) == at_first);  // more than there is
  CHECK(split_of(8000, learned) == split_of(8000, {}));                // of a larger block
  World next(2, 100000, 12000, learned);
  next.run(150);
  CHECK(next.wrong == 0);
  CHECK(next.found > 100);
  CHECK(next.copies->split() == learned);
}

TEST_CASE("device split: rows of which a byte is met most often come first, and the room is kept") {
  ClassWorth small, large;
  small.set_bytes = 320, small.most_sets = 100, small.looks = 2;
  large.set_bytes = 1088, large.most_sets = 100, large.looks = 2;
  // Two looks: half of the sums are the rows. Hot rows of both, then the small class' others, per byte.
  small.rows[9] = 2 * 160, small.seen[9] = 1600;
  small.rows[0] = 2 * 800, small.seen[0] = 800;
  large.rows[9] = 2 * 160, large.seen[9] = 16000;
  large.rows[0] = 2 * 800, large.seen[0] = 1600;
  CHECK(split_by_hits({small, large}, 10 * 320 + 10 * 1088) == std::vector<uint32_t>{10, 10});
  CHECK(split_by_hits({small, large}, 5 * 1088) == std::vector<uint32_t>{0, 5});
  CHECK(split_by_hits({small, large}, 40 * 320 + 10 * 1088) == std::vector<uint32_t>{40, 10});
  CHECK(split_by_hits({small, large}, 1000000) == std::vector<uint32_t>{100, 100});
  CHECK(split_by_hits({small, large}, 319) == std::vector<uint32_t>{0, 0});
  CHECK(hits_with(small, 5) == doctest::Approx(800));
  CHECK(hits_with(small, 35) == doctest::Approx(1600 + 400));
  CHECK(hits_with(large, 0) == 0);
}

}  // namespace dpi::test::device_split_test
