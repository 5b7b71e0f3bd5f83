// The device's cache over the host tier, its kernels over the emulation. Readers look at every moment: before
// and after each call of the device that a step makes, a lookup of what they hold gives their own rows; and
// who has seen a tag finds the row in its line until his call is over, whatever happens meanwhile. The same
// while any call of the device fails, and with the cache's own thread beside callers' threads.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "device_cache_world.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::device_cache_test {

TEST_CASE("device cache: at every moment of every step calls read their own rows") {
  for (unsigned seed = 1; seed <= some_of(4u); ++seed) {
    CAPTURE(seed);
    World w(seed);
    w.run(800);
    w.run(400, 5000);  // others become warm
    CHECK(w.wrong == 0);
    CHECK(w.found > 1000);
    CHECK(w.copies->counts().filled > 100);
    CHECK(w.copies->counts().cleared > 50);
    CHECK(w.steps_failed == 0);
    CHECK(w.failed < 60);  // which found the tier full of what others hold, or of what is to leave
  }
}

TEST_CASE("device cache: any calls of the device may fail, and nothing wrong is read") {
  for (int64_t n = 0; n < some_of(24); ++n) {
    CAPTURE(n);
    World w(static_cast<unsigned>(n) + 100);
    g_calls.made = 0;
    g_calls.fail_at = n;
    g_calls.fails = n % 2 == 0 ? 1 : 40;
    w.run(600);
    CHECK(w.wrong == 0);
    CHECK(w.steps_failed > 0);
    CHECK(w.steps_failed <= g_calls.fails);
    CHECK(w.copies->counts().filled > 20);
    for (Holder& h : w.holders) h.end(w.cache);
    for (int i = 0; i < 4; ++i) CHECK(w.copies->step().ok());
    // Every place is somewhere: what left the device came back to the tier.
    for (int32_t c = 0; c < 2; ++c) {
      const auto& size = w.cache.cache->plan().classes[static_cast<size_t>(c)];
      const Shard::Fill fill = w.cache.cache->fill(c);
      CHECK(fill.linked + fill.free + fill.waiting + fill.in_flight == size.places());
    }
  }
}

TEST_CASE("device cache: rows that are there when it begins fill it, and are found") {
  World w(1, 100000, 20000);
  g_calls.around = nullptr;
  for (int64_t key = 1000; key < 1100; ++key) {
    float row[16];
    for (int64_t e = 0; e < 16; ++e) row[e] = element(1, key, e);
    CHECK(w.cache.cache->preload(1, key, std::as_bytes(std::span(row)), key % 10 == 0 ? 200 : 0));
  }
  CHECK(w.copies->prefill().ok());
  CHECK(w.copies->counts().filled > 80);
  REQUIRE(w.holders[0].begin(w.cache, 1, iota(1000, 100)));
  w.holders[0].find_tags(w.cache, *w.copies);
  CHECK(w.holders[0].seen.size() > 60);
  CHECK(w.holders[0].wrong_lines() == 0);
  CHECK(w.holders[0].wrong_rows(w.cache, *w.copies) == 0);
  w.holders[0].end(w.cache);
}

TEST_CASE("device cache: the hottest of the rows that are there when it begins fill it, wherever they lie") {
  World w(1, 100000, 6000);
  g_calls.around = nullptr;
  const auto heat_of = [](int64_t key) { return static_cast<uint8_t>(key % 100); };
  const std::vector<int64_t> keys = iota(1000, 300);
  for (const int64_t key : keys) {
    float row[16];
    for (int64_t e = 0; e < 16; ++e) row[e] = element(1, key, e);
    REQUIRE(w.cache.cache->preload(1, key, std::as_bytes(std::span(row)), heat_of(key)));
  }
  CHECK(w.copies->prefill().ok());
  Holder& h = w.holders[0];
  REQUIRE(h.begin(w.cache, 1, keys));
  h.find_tags(w.cache, *w.copies);
  CHECK(h.wrong_lines() == 0);
  const auto lines = int64_t{w.copies->split()[static_cast<size_t>(w.cache.cache->size_class(1))]} * 16;
  REQUIRE(lines >= 30);
  REQUIRE(lines < 150);
  CHECK(std::ssize(h.seen) > lines * 9 / 10);
  int64_t hottest = 0;  // of the rows of half of the lines
  for (const Holder::Seen& s : h.seen) hottest += heat_of(s.key) >= 100 - lines / 2 / 3 ? 1 : 0;
  CHECK(hottest >= lines / 2 / 3 * 3 - 2);
  h.end(w.cache);
}

TEST_CASE("device cache: rows that are asked for often come, and stay while others pass by") {
  World w(3, 60000, 6000);
  g_calls.around = nullptr;
  Holder& h = w.holders[0];
  const std::vector<int64_t> hot = iota(100, 21);
  const auto found = [&] {
    REQUIRE(h.begin(w.cache, 1, hot));
    h.find_tags(w.cache, *w.copies);
    const size_t n = h.seen.size();
    h.end(w.cache);
    return n;
  };
  const auto rounds = [&](int n, bool others) {
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < 16; ++k) static_cast<void>(found());
      if (others) REQUIRE(h.begin(w.cache, 1, iota(10000 + i * 11, 11)));
      if (others) h.end(w.cache);
      REQUIRE(w.copies->step().ok());
    }
  };
  CHECK(found() == 0);
  rounds(40, false);
  CHECK(found() >= 18);
  rounds(40, true);
  CHECK(found() >= 18);
  CHECK(w.cache.cache->sampled(1).held > 0);
  CHECK(w.cache.cache->sampled(1).held < w.cache.cache->sampled(1).all);
}

TEST_CASE("device cache: with its own thread beside callers") {
  Cache c(with_lines(60000, 20000));
  g_calls.around = nullptr;
  g_calls.fail_at = -1;
  g_calls.most_changes = 0;
  auto made = DeviceCache::make(kDevice, nullptr, c.cache.get());
  REQUIRE(made.ok());
  const std::unique_ptr<DeviceCache> copies = std::move(made).value();
  REQUIRE(copies->start().ok());
  std::atomic<int> wrong{0}, refused{0};
  std::vector<std::thread> callers;
  for (unsigned i = 0; i < 3; ++i) {
    callers.emplace_back([&, i] {
      std::mt19937 random(i);
      Holder h(c);
      for (int call = 0; call < 400; ++call) {
        if (!h.begin(c, static_cast<int32_t>(random() % 3), some_keys(random, 32, call / 100 * 1000), true)) {
          ++refused;
          continue;
        }
        wrong += h.wrong_rows(c, *copies);
        h.end(c);
      }
    });
  }
  for (std::thread& t : callers) t.join();
  for (int i = 0; i < 200 && copies->counts().filled == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(wrong == 0);
  CHECK(refused == 0);
  CHECK(copies->counts().filled > 0);
  CHECK(copies->counts().failed == 0);
  CHECK(g_calls.priority == 0);  // the lowest: calls have a higher one where there are copies
  CHECK(g_calls.most_changes <= kMostCacheChanges);
}

TEST_CASE("device cache: as many rows as there are lines find one, strided or not") {
  for (const uint32_t sets : {37u, 64u, 1000u, 4096u, 20000u}) {
    const auto wide = static_cast<int64_t>(sets);
    for (const int64_t stride : {int64_t{1}, int64_t{2}, int64_t{10}, int64_t{16}, int64_t{64}, int64_t{128},
                                 int64_t{1000}, int64_t{1024}, int64_t{65536}, wide, 2 * wide, 16 * wide}) {
      CAPTURE(sets);
      CAPTURE(stride);
      const int64_t rows = std::min<int64_t>(16 * wide, INT32_MAX / stride);
      device_cache::Lines lines(sets);
      int64_t placed = 0;
      for (int64_t i = 0; i < rows; ++i)
        placed += lines.take_empty(static_cast<int32_t>(i * stride)) != device_cache::Lines::kNone ? 1 : 0;
      CHECK(placed > rows * 6 / 10);
    }
  }
}

TEST_CASE("device cache: a budget is spent to the byte, or not at all") {
  const std::vector<TierTable> tables = {{"a", 1000, 16, kernels::DType::kF32},
                                         {"b", 50, 4, kernels::DType::kF32}};
  const ArenaPlan arena = plan_arena(tables, 200000, 8, 3).value();
  for (const uint64_t budget : {0u, 100u, 5000u, 20000u, 90000u, 100000000u}) {
    CAPTURE(budget);
    const LinePlan plan = plan_lines(arena, 3, budget);
    CHECK(plan.device_bytes <= budget);
    CHECK(plan.any() == (budget >= 5000));
    for (size_t c = 0; c < 2; ++c) {
      const int64_t rows = arena.classes[c].places() + 1 + 3;
      CHECK(plan.classes[c].lines() <= rows + rows / 4 + 16);
      if (budget == 100000000u) CHECK(plan.classes[c].lines() > rows);
      if (plan.classes[c].sets > 0) CHECK(plan.classes[c].tags_at % 64 == 0);
    }
    // However it is cut, it fits.
    for (uint32_t first = 0; first <= plan.classes[0].most_sets; ++first) {
      const int64_t left = plan.room - first * plan.classes[0].set_bytes;
      if (left < 0) break;
      const auto second = std::min<int64_t>(plan.classes[1].most_sets, left / plan.classes[1].set_bytes);
      const LinePlan cut = cut_lines(arena, plan, {first, static_cast<uint32_t>(second)});
      const auto stride = static_cast<uint64_t>(arena.classes[1].stride);
      const uint64_t end = cut.classes[1].lines_at + static_cast<uint64_t>(cut.classes[1].lines()) * stride;
      if (plan.any()) CHECK(end + 512 <= plan.device_bytes);  // aligned, and as rows lie
    }
  }
}

}  // namespace dpi::test::device_cache_test
