// Callers beyond the number of contexts: each gets its turn, in the order in which they came, one that gives
// up holds nobody up, and a pool that closes lets go of all. Calls are counted, not timed, where they can be.
#include <doctest/doctest.h>
#include <sched.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "runtime/shared_world.hpp"
#include "runtime/stated_bundle.hpp"
#include "support/random_batch.hpp"

namespace dpi::test::waiting_test {
namespace {

constexpr int64_t kCallNs = 2'500'000;  // longer than a turn, so that each call is one

void nap(int64_t ns) { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }

struct Fixture {
  World world;
  WideDeep made;
  StatedBundle bundle{made.b, 1};

  ModelPtr model(int contexts, const std::string& devices = "") {
    Options more = {{"max_contexts", std::to_string(contexts)}};
    if (!devices.empty()) more.emplace_back("devices", devices);
    return create(bundle, world.options(more));
  }
};

struct Shares {
  std::vector<int64_t> calls;   // of each caller
  std::vector<int64_t> passed;  // calls of others that began while it waited, at most
};

/// Callers that call without a pause, until all of them together have had `each` calls a caller. A call keeps
/// its context and no processor, as one does that waits for a device or a store.
Shares crowd(Model& m, int callers, int64_t each) {
  Shares s{std::vector<int64_t>(callers, 0), std::vector<int64_t>(callers, 0)};
  std::atomic<int64_t> begun{0};
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < callers; ++t) {
    threads.emplace_back([&, t] {
      CHECK(score(m, RandomBatch(m.engine().schema(), 3, 0, static_cast<unsigned>(t))).status.ok());
      for (++ready; ready < callers;) nap(100'000);
      while (begun < callers * each) {
        const int64_t before = begun;
        const auto lease = m.claim({});
        CHECK(lease.ok());
        s.passed[t] = std::max(s.passed[t], begun++ - before);
        ++s.calls[t];
        nap(kCallNs);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return s;
}

/// `each` calls a caller were asked for: nobody had 20 % more or less, and nobody waited for more than twice
/// the calls that a queue has, and 50 ms of them.
void check_shares(const Shares& s, int callers, int contexts, int64_t each) {
  const int64_t most = 2 * callers + 50'000'000 / kCallNs * contexts;
  for (size_t t = 0; t < s.calls.size(); ++t) {
    CAPTURE(t);
    CHECK(5 * s.calls[t] >= 4 * each);
    CHECK(5 * s.calls[t] <= 6 * each);
    CHECK(s.passed[t] <= most);
  }
}

TEST_CASE("waiting: every caller has its share, and is not passed over") {
  Fixture f;
  for (const int contexts : {1, 2, 8}) {
    const ModelPtr m = f.model(contexts);
    for (const int callers : {4, 64}) {
      CAPTURE(contexts);
      CAPTURE(callers);
      const int64_t each = callers == 4 ? 40 : 10;
      if (callers > contexts) check_shares(crowd(*m, callers, each), callers, contexts, each);
    }
  }
}

TEST_CASE("waiting: one queue for all devices of a model") {
  if (on_host()) return;
  Fixture f;
  const ModelPtr m = f.model(4, "0,1");
  check_shares(crowd(*m, 12, 20), 12, 4, 20);
}

TEST_CASE("waiting: callers that find a context do not wait") {
  Fixture f;
  const ModelPtr m = f.model(8);
  static_cast<void>(crowd(*m, 4, 20));
  CHECK_MESSAGE(m->counters_json().find("\"waits\":0,") != std::string::npos, m->counters_json());
}

/// The default follows the CPUs that the loading thread may use.
TEST_CASE("waiting: info_json tells how many contexts there are, also by default") {
  Fixture f;
  ModelOptions options = f.world.options();
  options.max_contexts = 0;
  cpu_set_t mask, one;
  REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &mask)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const ModelPtr alone = create(f.bundle, options);
  REQUIRE(sched_setaffinity(0, sizeof mask, &mask) == 0);
  CHECK_MESSAGE(alone->info_json().find("\"max_contexts\":\"1\"") != std::string::npos, alone->info_json());
  RunControl soon;
  soon.deadline_ns = 1;
  const auto context = alone->claim(soon), next = alone->claim(soon);
  CHECK(context.ok());
  CHECK(next.status().code() == Code::kTimeout);
  CHECK(f.model(3)->info_json().find("\"max_contexts\":\"3\"") != std::string::npos);
}

TEST_CASE("waiting: short calls in a crowd") {
  Fixture f;
  const ModelPtr m = f.model(1);
  const RandomBatch request(m->engine().schema(), 3, 0, 1);
  const Scores want = score(*m, request);
  const int each = on_host() ? 400 : 20;
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {  // each has as many, so one that is never served holds the test up for ever
      for (int i = 0; i < each; ++i) done += same_bits(score(*m, request).out, want.out) ? 1 : 0;
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(done == 16 * each);
}

/// Callers with deadlines and flags, among them some that have all the time in the world.
TEST_CASE("waiting: who gives up leaves the queue, whatever it has been told") {
  Fixture f;
  const ModelPtr m = f.model(2);
  std::atomic<int64_t> codes[3] = {};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 24; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 60; ++i) {
        int32_t cancel = t % 3 == 1 ? static_cast<int32_t>(i % 4 == 0) : 0;
        RunControl control;
        if (t % 3 == 1) control.cancel = &cancel;
        if (t % 3 == 2) control.deadline_ns = monotonic_ns() + (t * 7919 + i * 104729) % 3'000'000;
        const auto lease = m->claim(control);
        const Code code = lease.ok() ? Code::kOk : lease.status().code();
        const bool may = code == Code::kOk || code == (t % 3 == 1 ? Code::kCancelled : Code::kTimeout);
        CHECK((t % 3 == 0 ? lease.ok() : may));
        codes[code == Code::kOk ? 0 : code == Code::kTimeout ? 1 : 2]++;
        if (lease.ok()) nap((t * 31 + i * 17) % 4 * 50'000);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(codes[0] + codes[1] + codes[2] == 24 * 60);
  CHECK(codes[1] > 0);
  CHECK(codes[2] > 0);
  RunControl soon;  // both contexts are free again, and nobody is left in the queue
  soon.deadline_ns = 1;
  const auto one = m->claim(soon), other = m->claim(soon), third = m->claim(soon);
  CHECK(one.ok());
  CHECK(other.ok());
  CHECK(third.status().code() == Code::kTimeout);
  const std::string counted =
      "\"" + std::to_string(static_cast<int>(Code::kTimeout)) + "\":" + std::to_string(codes[1] + 1);
  CHECK_MESSAGE(m->counters_json().find(counted) != std::string::npos, m->counters_json());
}

TEST_CASE("waiting: a pool that closes serves those that wait, and refuses the next ones") {
  Fixture f;
  const ModelPtr m = f.model(1);
  for (int round = 0; round < 20; ++round) {
    ContextPool pool(m->engine(), {1 + round % 2, 0}, 16, 4096);
    std::vector<ContextPool::Lease> held;
    while (static_cast<int32_t>(held.size()) < pool.size()) held.push_back(pool.acquire({}).value());
    std::atomic<int> served{0}, refused{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        RunControl control;
        if (t == 0) control.deadline_ns = monotonic_ns() + 500'000;
        const auto lease = pool.acquire(control);
        (lease.ok() ? served : refused)++;
        CHECK((t == 0 || lease.ok() || lease.status().code() == Code::kClosed));
        if (lease.ok()) nap(100'000);
      });
    }
    nap(round % 4 * 1'000'000);
    std::thread closes([&] { pool.close(); });
    nap(round % 3 * 500'000);
    held.clear();
    for (std::thread& t : threads) t.join();
    closes.join();
    CHECK(served + refused == 6);
    CHECK(pool.acquire({}).status().code() == Code::kClosed);
  }
}

}  // namespace
}  // namespace dpi::test::waiting_test
