// Epochs, pools of places, and how a budget becomes an arena.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "store/tiered/arena.hpp"
#include "store/tiered/directory.hpp"
#include "store/tiered/epochs.hpp"
#include "store/tiered/place_pool.hpp"

namespace dpi::test::epochs_arena_test {
namespace {

using namespace dpi::tiered;
using Epochs = EpochsT<StdSync>;

TEST_CASE("a place waits for readers of its epoch or an older one, and for no other") {
  Epochs epochs;
  auto* early = epochs.add_reader().value();
  auto* late = epochs.add_reader().value();
  PlacePool pool(10, 2);
  int32_t place = 0;
  REQUIRE(pool.take(&place));
  CHECK(place == 10);
  CHECK(epochs.oldest() == UINT64_MAX);
  epochs.enter(*early);
  const uint64_t tag = epochs.bump();
  pool.retire(place, tag);
  epochs.enter(*late);  // after the bump: cannot have seen the place
  pool.recycle(epochs.oldest());
  CHECK(pool.n_free() == 1);
  CHECK(pool.n_waiting() == 1);
  epochs.leave(*early);
  CHECK(epochs.oldest() == tag + 1);
  pool.recycle(epochs.oldest());
  CHECK(pool.n_free() == 2);
  CHECK(pool.n_waiting() == 0);
  epochs.leave(*late);
}

TEST_CASE("readers up to the bound, and again when some have gone") {
  Epochs epochs;
  std::vector<Epochs::Line*> all;
  for (int32_t i = 0; i < Epochs::kMaxReaders; ++i) {
    all.push_back(epochs.add_reader().value());
    CHECK(reinterpret_cast<uintptr_t>(all.back()) % 64 == 0);
  }
  CHECK(epochs.add_reader().status().code() == Code::kOutOfMemory);
  epochs.enter(*all.back());
  CHECK(epochs.oldest() == 1);
  epochs.leave(*all.back());
  epochs.remove_reader(all.back());
  CHECK(epochs.add_reader().value() == all.back());
}

std::vector<TierTable> tables() {
  return {{"a", 1000000, 16, kernels::DType::kF32},
          {"b", 500000, 16, kernels::DType::kF32},
          {"c", 100000, 48, kernels::DType::kF32},
          {"d", 100, 3, kernels::DType::kF16}};
}

TEST_CASE("a budget is split by size class and kept") {
  for (const uint64_t budget : {uint64_t{2000}, uint64_t{1} << 20, uint64_t{64} << 20, uint64_t{8} << 30}) {
    const auto plan = plan_arena(tables(), budget, 8);
    if (budget == 2000) {
      CHECK(plan.status().code() == Code::kOutOfMemory);
      CHECK(plan.status().message().find("a host budget of 2000 bytes leaves no room for a row of table '") ==
            0);
      continue;
    }
    REQUIRE(plan.ok());
    CHECK(plan->bytes() <= budget);
    REQUIRE(plan->classes.size() == 3);
    CHECK(plan->classes[0].stride == 64);
    CHECK(plan->classes[0].tables.size() == 2);
    CHECK(plan->classes[1].stride == 192);
    CHECK(plan->classes[2].stride == 8);
    if (budget == uint64_t{64} << 20) CHECK(plan->bytes() > budget * 9 / 10);
    // With room for all there are a quarter more places than rows, because shards are not equally full.
    if (budget > uint64_t{1} << 30) CHECK(plan->classes[0].places() >= 1800000);
    if (budget > uint64_t{1} << 30) CHECK(plan->bytes() < uint64_t{240} << 20);
  }
  const auto none = plan_arena(tables(), 0, 8);
  CHECK(none.status().code() == Code::kOutOfMemory);
}

TEST_CASE("a class of a few rows beside a large one holds them all, and remembers absent keys") {
  for (const uint64_t budget : {uint64_t{1} << 16, uint64_t{1} << 20, uint64_t{1} << 30}) {
    const auto plan = plan_arena({{"users", 100'000'000, 16, kernels::DType::kF32},
                                  {"cities", 5, 1, kernels::DType::kF32},
                                  {"shops", 40, 6, kernels::DType::kF16}},
                                 budget, 8, 3);
    REQUIRE_MESSAGE(plan.ok(), plan.status().message());
    CHECK(plan->bytes() <= budget);
    CHECK(plan->bytes() > budget * 9 / 10);
    for (const int c : {1, 2}) {
      CHECK(plan->classes[static_cast<size_t>(c)].places() >= (c == 1 ? 5 : 40));
      CHECK(plan->classes[static_cast<size_t>(c)].remembered >= 5);
      if (budget > 1 << 16) CHECK(plan->classes[static_cast<size_t>(c)].remembered >= 64);
    }
  }
  const auto any = plan_arena({{"cities", 5, 1, kernels::DType::kF32, true}}, 1 << 23, 8);
  CHECK(any->classes[0].places() >= 65536);  // a call may have so many absent keys
  CHECK(any->bytes() < 4 << 20);
  const auto small = plan_arena({{"cities", 5, 1, kernels::DType::kF32, true}}, 1 << 16, 8);
  CHECK(small->classes[0].remembered >= 150);
  CHECK(small->bytes() <= 1 << 16);
  const auto alone = plan_arena({{"cities", 5, 1, kernels::DType::kF32}}, 1 << 20, 8);
  CHECK(alone->classes[0].remembered == 4096);
  CHECK(alone->bytes() < 200'000);
}

TEST_CASE("one place is the least") {
  const std::vector<TierTable> one = {{"t", 0, 16, kernels::DType::kF32}};
  uint64_t least = 0;
  while (!plan_arena(one, least, 8).ok()) ++least;
  CHECK(plan_arena(one, least, 8)->classes[0].places() == 1);
  CHECK(plan_arena(one, least, 8)->bytes() <= least);
  CHECK(least < 600);
}

TEST_CASE("places and default rows do not overlap") {
  const auto plan = plan_arena(tables(), uint64_t{4} << 20, 4).value();
  const auto arena = Arena::make(plan, {}, {});
  REQUIRE(arena.ok());
  std::vector<std::pair<std::byte*, std::byte*>> ranges;
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    const auto& size = plan.classes[c];
    const auto end = static_cast<int32_t>(size.places() + static_cast<int64_t>(size.tables.size()));
    ranges.emplace_back(arena->row(static_cast<int32_t>(c), 0), arena->row(static_cast<int32_t>(c), end));
    for (const int32_t t : size.tables) {
      CHECK(arena->default_place(t) >= size.places());
      CHECK(arena->default_place(t) < end);
    }
  }
  CHECK(ranges[0].second <= ranges[1].first);
  CHECK(ranges[1].second <= ranges[2].first);
  CHECK(ranges[2].second <= ranges[0].first + plan.row_bytes);
  CHECK(arena->default_place(0) != arena->default_place(1));
  std::memset(ranges[0].first, 1, plan.row_bytes);
}

/// Counts, and fails from the n-th block on.
struct CountingHooks {
  int left = 0;
  int64_t held = 0;
  MemoryHooks hooks() {
    return {[](void* user, size_t bytes, size_t alignment, int32_t) -> void* {
              auto* self = static_cast<CountingHooks*>(user);
              if (self->left-- <= 0) return nullptr;
              self->held += static_cast<int64_t>(bytes);
              return std::aligned_alloc(alignment, bytes);
            },
            [](void* user, void* block, size_t bytes, int32_t) {
              static_cast<CountingHooks*>(user)->held -= static_cast<int64_t>(bytes);
              std::free(block);
            },
            this};
  }
};

TEST_CASE("memory comes from the environment's hooks, and a hook that has none is a status") {
  const auto plan = plan_arena(tables(), uint64_t{4} << 20, 4).value();
  for (int blocks = 0; blocks <= 2; ++blocks) {
    CountingHooks counting{blocks};
    {
      const auto arena = Arena::make(plan, counting.hooks(), counting.hooks());
      CHECK(arena.ok() == (blocks == 2));
      if (arena.ok()) CHECK(counting.held >= static_cast<int64_t>(plan.bytes()));
      if (!arena.ok()) CHECK(arena.status().code() == Code::kOutOfMemory);
    }
    CHECK(counting.held == 0);
  }
}

}  // namespace
}  // namespace dpi::test::epochs_arena_test
