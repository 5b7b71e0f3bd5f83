// The gate of endpoints: every interleaving of two callers and one who replaces what they look at, on lines
// of their own and on one line for both; and the gate itself with more callers than lines.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "base/gate.hpp"
#include "support/tier_model.hpp"

namespace dpi::test::gate_test {
namespace {

using Epochs = EpochsT<ModelSync>;
constexpr auto kSeqCst = std::memory_order_seq_cst;

/// Thing 0 is current, is replaced by thing 1, and freed. A caller that finds it freed fails.
struct World {
  ThreadModel model;
  Epochs epochs;
  Epochs::Line* lines[2] = {};
  uint64_t current = 0;
  uint64_t freed[2] = {0, 0};
  uint64_t was_freed = 0;  // some order got so far

  World() {
    for (auto& line : lines) line = epochs.add_reader().value();
    model.track(&epochs, 64);
    for (auto* line : lines) model.track(line);
    model.track(&current);
    model.track(freed, sizeof freed);
  }
  void caller(int line) {
    model.thread([this, line] {
      if (!epochs.try_enter(*lines[line])) return;  // Gate takes another line, or the lock
      const uint64_t thing = ModelSync::load(current, kSeqCst);
      if (ModelSync::load(freed[thing], kSeqCst) != 0) model.fail("freed under a caller");
      epochs.leave(*lines[line]);
    });
  }
  void replacer(bool drains, bool bumps_first = false) {
    model.thread([this, drains, bumps_first] {
      uint64_t tag = bumps_first ? epochs.bump() : 0;
      ModelSync::store(current, uint64_t{1}, kSeqCst);
      if (!bumps_first) tag = epochs.bump();
      for (int looks = 0; drains && epochs.oldest() <= tag; ++looks) {
        if (looks == 2) return;  // Gate sleeps and looks again
      }
      ModelSync::store(freed[0], uint64_t{1}, kSeqCst);
      was_freed = 1;
    });
  }
};

TEST_CASE("what callers may have found is freed after they have left") {
  for (const bool shared_line : {false, true}) {
    CAPTURE(shared_line);
    World w;
    w.caller(0);
    w.caller(shared_line ? 0 : 1);
    w.replacer(true);
    CHECK(w.model.run().empty());
    CHECK(w.model.states() > 300);
    CHECK(w.was_freed == 1);
  }
}

TEST_CASE("planted: freeing without the drain, and a drain that began before the replacement") {
  World undrained;
  undrained.caller(0);
  undrained.caller(1);
  undrained.replacer(false);
  CHECK(undrained.model.run().count("freed under a caller") == 1);
  World early;
  early.caller(0);
  early.caller(1);
  early.replacer(true, true);
  CHECK(early.model.run().count("freed under a caller") == 1);
}

TEST_CASE(
    "drain waits for all that are inside, the crowd beyond the lines too, and for nobody who comes later") {
  for (const int32_t lines : {1, 4, 8}) {
    auto gate = std::move(Gate::make(lines).value());
    std::atomic<int> inside{0};
    std::atomic<bool> leave{false}, drained{false};
    std::vector<std::thread> callers;
    for (int i = 0; i < 6; ++i) {
      callers.emplace_back([&] {
        Gate::Pass pass(*gate);
        inside.fetch_add(1);
        while (!leave.load()) std::this_thread::yield();
      });
    }
    while (inside.load() < 6) std::this_thread::yield();
    std::thread owner([&] {
      gate->drain();
      drained.store(true);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(drained.load());
    leave.store(true);
    for (std::thread& t : callers) t.join();
    owner.join();
    CHECK(drained.load());
  }
}

TEST_CASE("callers that never pause hold no drain up, and each drain sees what it replaced unused") {
  auto gate = std::move(Gate::make(2).value());
  constexpr int kThings = 300;
  std::vector<std::atomic<int>> freed(kThings + 1);
  std::atomic<int> current{0}, wrong{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        Gate::Pass pass(*gate);
        const int thing = current.load();
        for (int looks = 0; looks < 20; ++looks) {
          if (freed[static_cast<size_t>(thing)].load(std::memory_order_relaxed) != 0) wrong.fetch_add(1);
        }
      }
    });
  }
  for (int n = 0; n < kThings; ++n) {
    current.store(n + 1);
    gate->drain();
    freed[static_cast<size_t>(n)].store(1, std::memory_order_relaxed);
  }
  stop.store(true);
  for (std::thread& t : callers) t.join();
  CHECK(wrong.load() == 0);
}

}  // namespace
}  // namespace dpi::test::gate_test
