// A version of an endpoint ends when nobody can be looking at it: a caller that found it and has claimed
// nothing yet holds it back, whether a load, a rollback or the end of its time drops it.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "runtime/endpoint/endpoint.hpp"
#include "support/device.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::endpoint_gate_test {
namespace {

std::atomic<int> g_freed{0};

struct CountedVersion final : Version {
  explicit CountedVersion(std::unique_ptr<Model> m) : owned(std::move(m)) { model = owned.get(); }
  ~CountedVersion() override { g_freed.fetch_add(1); }
  std::unique_ptr<Model> owned;
};

std::unique_ptr<Endpoint> make() {
  ModelOptions options;
  options.device = device();
  options.max_contexts = 1;
  options.environment = Environment::create();
  auto made = Endpoint::create("gate", options, [](std::unique_ptr<Model> m) -> std::unique_ptr<Version> {
    return std::make_unique<CountedVersion>(std::move(m));
  });
  REQUIRE(made.ok());
  return std::move(made).value();
}

Status load(Endpoint& e) {
  return e.load(Update::of_file(source_dir() + "/weights/demo/adult_widedeep.h5", 0));
}

/// Runs `drop` beside a caller that has looked at the current version; it may not end before that one leaves.
void check_held_back(Endpoint& e, const std::function<Status()>& drop) {
  g_freed.store(0);
  std::atomic<bool> done{false};
  Status status;
  Gate::Pass pass(e.gate());
  const Version* seen = e.current();
  const uint64_t number = seen->number;
  std::thread dropper([&] {
    status = drop();
    done.store(true);
  });
  while (e.number() == number && !done.load()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK_FALSE(done.load());
  CHECK(g_freed.load() == 0);
  CHECK(seen->number == number);
  CHECK(e.current() != seen);  // others are with the next one already
  pass.leave();
  dropper.join();
  CHECK(status.ok());
  CHECK(g_freed.load() == 1);
}

TEST_CASE("what a load or a rollback drops stays for who has found it") {
  const auto e = make();
  REQUIRE(e->set("keep_seconds", "0").ok());
  REQUIRE(load(*e).ok());
  check_held_back(*e, [&] { return load(*e); });
  REQUIRE(e->set("keep_seconds", "300").ok());
  REQUIRE(load(*e).ok());
  check_held_back(*e, [&] { return e->rollback(); });
}

}  // namespace
}  // namespace dpi::test::endpoint_gate_test
