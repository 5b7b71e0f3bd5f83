// Calls that wait for rows of a file that hangs: they give their places to others, keep what they have, and
// go on when the rows are here; scores are those of a resident model, to the bit. Nothing is timed: a
// deadline of 20 s stands for "blocked". Planted, each seen (tests/mutants/runtime/parked_*): a call that
// waits keeps its place; what a cancelled call parked is not given back; who comes back waits behind the
// others.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "runtime/gated_bundle.hpp"
#include "runtime/shared_world.hpp"

namespace dpi::test::parking_test {
namespace {

constexpr uint64_t kMs = 1'000'000, kLong = 20'000 * kMs;
constexpr const char* kBudget = "200000";  // of 324000 bytes of rows

bool comes(const std::function<bool()>& what) {
  for (int ms = 0; ms < 20000 && !what(); ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return what();
}

struct Fixture {
  World world;
  WideDeep made;
  GatedBundle bundle{made.b};
  ModelPtr oracle;

  ~Fixture() { bundle.gate->set(true); }
  ModelPtr model(int contexts, int parked, const Options& more = {}) {
    Options all = tier_of(kBudget, {{"debug.fold", "off"},
                                    {"store.share", "off"},
                                    {"max_contexts", std::to_string(contexts)},
                                    {"store.parked", std::to_string(parked)}});
    all.insert(all.end(), more.begin(), more.end());
    if (oracle == nullptr)
      oracle = create(bundle, world.options({{"debug.fold", "off"}, {"store.share", "off"}}));
    return create(bundle, world.options(all));
  }
  RandomBatch request(unsigned seed, int64_t rows = 3) const {
    return RandomBatch(oracle->engine().schema(), rows, 0, seed);
  }
  bool right(const RandomBatch& request, const Scores& got) const {
    const Scores want = score(*oracle, request);
    CHECK_MESSAGE(got.status.ok(), got.status.message());
    return same_bits(got.out, want.out) && same_bits(got.logits, want.logits);
  }
  /// A call whose rows are here, though the gate be closed.
  bool hot(Model& m) const {
    const RandomBatch r = request(1);
    return right(r, score(m, r, monotonic_ns() + kLong));
  }
  void heat(Model& m) const {
    for (int i = 0; i < 3; ++i) CHECK(hot(m));
  }
};

/// Calls for rows that are not here, each on a thread of its own.
class Cold {
 public:
  Cold(const Fixture& f, Model& m, int callers, int64_t rows = 3) : gate_(f.bundle.gate) {
    for (int t = 0; t < callers; ++t) {
      threads_.emplace_back([&f, &m, this, t, rows] {
        const RandomBatch r = f.request(static_cast<unsigned>(100 + t), rows);
        const Scores got =
            score(m, r, monotonic_ns() + 10 * kLong);  // a store's own time would end it sooner
        right += f.right(r, got) ? 1 : 0;
        ++done;
      });
    }
  }
  ~Cold() {
    gate_->set(true);  // a test that failed before it did so ends
    join();
  }
  void join() {
    for (std::thread& t : threads_) t.join();
    threads_.clear();
  }
  std::atomic<int> done{0}, right{0};

 private:
  const std::shared_ptr<GatedFile> gate_;
  std::vector<std::thread> threads_;
};

bool parked(Model& m, uint64_t calls) {
  return comes([&] { return m.counts().parked_now == calls; });
}

/// Errors of a code that the model has counted.
uint64_t errors(const Model& m, Code code) { return m.counts().errors[static_cast<size_t>(code)]; }

TEST_CASE("parking: calls that wait for rows keep nobody from a context") {
  Fixture f;
  const ModelPtr m = f.model(2, 8);
  f.heat(*m);
  const uint64_t before = m->counts().parked;
  f.bundle.gate->set(false);
  {
    Cold cold(f, *m, 6);
    REQUIRE(parked(*m, 6));
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 20; ++i) right += f.hot(*m) ? 1 : 0;
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK(right == 40);
    CHECK(cold.done == 0);
    CHECK(m->counts().parked_now == 6);
    f.bundle.gate->set(true);
    cold.join();
    CHECK(cold.right == 6);
  }
  const CounterSums counts = m->counts();
  CHECK(counts.parked >= before + 6);
  CHECK(counts.parked_now == 0);
  CHECK(counts.calls == 3 + 6 + 40);
  const std::string json = m->counters_json();
  CHECK_MESSAGE(json.find("\"parked_now\":0,") != std::string::npos, json);
}

TEST_CASE("parking: cancel flag and deadline end the wait, and what was parked is there for the next one") {
  Fixture f;
  const ModelPtr m = f.model(1, 2);
  f.heat(*m);
  f.bundle.gate->set(false);
  for (unsigned i = 0; i < 5; ++i) {
    CAPTURE(i);
    int32_t cancel = 0;
    const RandomBatch r = f.request(100 + i);
    std::vector<float> out(3);
    Status s;
    std::thread caller([&] {
      RunControl control;
      control.cancel = &cancel;
      s = m->predict(r.batch, out.data(), control);
    });
    CHECK(parked(*m, 1));
    CHECK(f.hot(*m));
    __atomic_store_n(&cancel, 1, __ATOMIC_RELEASE);
    caller.join();
    CHECK_MESSAGE(s.code() == Code::kCancelled, s.message());
    CHECK(m->counts().parked_now == 0);
    CHECK(errors(*m, Code::kCancelled) == i + 1);
  }
  for (unsigned i = 0; i < 5; ++i) {
    CAPTURE(i);
    const Scores s = score(*m, f.request(200 + i), monotonic_ns() + 30 * kMs);
    CHECK_MESSAGE(s.status.code() == Code::kTimeout, s.status.message());
    CHECK(m->counts().parked_now == 0);
    CHECK(errors(*m, Code::kTimeout) == i + 1);
  }
  CHECK(f.hot(*m));
  CHECK(m->counts().calls == 3 + 5 + 5 + 5 + 1);
  f.bundle.gate->set(true);
  const RandomBatch r = f.request(100);
  CHECK(f.right(r, score(*m, r)));
}

TEST_CASE("parking: as many calls as option store.parked says, the next one is told to raise it") {
  Fixture f;
  const ModelPtr m = f.model(1, 2);
  f.heat(*m);
  f.bundle.gate->set(false);
  Cold cold(f, *m, 2);
  REQUIRE(parked(*m, 2));
  for (int i = 0; i < 3; ++i) {
    const Scores s = score(*m, f.request(300), monotonic_ns() + kLong);
    CHECK(s.status.code() == Code::kQueueFull);
    CHECK_MESSAGE(s.status.message() == "2 calls wait for rows already; option store.parked allows more",
                  s.status.message());
    CHECK(f.hot(*m));
  }
  CHECK(errors(*m, Code::kQueueFull) == 3);
  CHECK(cold.done == 0);
  f.bundle.gate->set(true);
  cold.join();
  CHECK(cold.right == 2);
  const RandomBatch r = f.request(300);
  CHECK(f.right(r, score(*m, r)));
}

TEST_CASE("parking: calls of many chunks, several threads or devices, in a tier that drives their rows out") {
  Fixture f;
  std::vector<Options> settings = {{}, {{"threads", "3"}}};
  if (!on_host()) settings = {{}, {{"devices", "0,1"}}};
  for (const Options& more : settings) {
    const ModelPtr m = f.model(2, 16, more);
    m->engine().set_work_rows(false, {8, kNoRows});
    m->engine().set_work_rows(true, {8, kNoRows});
    std::atomic<bool> over{false};
    std::thread gate([&] {
      for (bool open = false; !over; open = !open) {
        f.bundle.gate->set(open);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
      }
      f.bundle.gate->set(true);
    });
    std::vector<std::thread> threads;
    std::atomic<int> right{0}, gave_up{0}, other{0};
    const unsigned each = on_host() ? 15 : 3;
    for (unsigned t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (unsigned i = 0; i < each; ++i) {
          const RandomBatch r = f.request(1000 * t + i, 37);
          const bool hurries = t % 4 == 3;
          const Scores got = score(*m, r, hurries ? monotonic_ns() + (i % 3) * kMs : 0);
          if (hurries && got.status.code() == Code::kTimeout) {
            ++gave_up;
          } else {
            ++(f.right(r, got) ? right : other);
          }
        }
      });
    }
    for (std::thread& t : threads) t.join();
    over = true;
    gate.join();
    CHECK(other == 0);
    CHECK(right + gave_up == 8 * static_cast<int>(each));
    CHECK(right >= 6 * static_cast<int>(each));
    CHECK(m->counts().parked > 0);
    CHECK(m->counts().parked_now == 0);
    CHECK(m->counts().calls + errors(*m, Code::kTimeout) >= 8 * each);
  }
}

TEST_CASE("parking: a model that closes waits for parked calls, which need no place any more") {
  Fixture f;
  ModelPtr m = f.model(1, 4);
  f.heat(*m);
  f.bundle.gate->set(false);
  Cold cold(f, *m, 3);
  REQUIRE(parked(*m, 3));
  std::atomic<bool> closed{false};
  std::thread closes([&] {
    m->close();
    closed = true;
  });
  CHECK(comes([&] { return m->claim({}).status().code() == Code::kClosed; }));
  CHECK_FALSE(closed);
  CHECK(cold.done == 0);
  f.bundle.gate->set(true);
  cold.join();
  CHECK(cold.right == 3);
  closes.join();
}

TEST_CASE("parking: a caller's own context is kept, and blocks nobody") {
  Fixture f;
  const ModelPtr m = f.model(1, 1);
  f.heat(*m);
  const auto own = m->make_own_context(16, 4096);
  REQUIRE(own.ok());
  f.bundle.gate->set(false);
  const RandomBatch r = f.request(100);
  std::vector<float> out(3);
  Status s;
  std::atomic<bool> done{false};
  std::thread caller([&] {
    auto lease = m->claim_from(**own, {});
    s = m->run(lease.value(), r.batch, out.data(), {});
    done = true;
  });
  CHECK(comes([&] { return m->engine().store().stores()[0].running > 0; }));
  for (int i = 0; i < 5; ++i) CHECK(f.hot(*m));
  CHECK(m->counts().parked_now == 0);
  CHECK_FALSE(done);
  f.bundle.gate->set(true);
  caller.join();
  CHECK_MESSAGE(s.ok(), s.message());
  CHECK(same_bits(out, score(*f.oracle, r).out));
  m->close_own_context(**own);
}

TEST_CASE("parking: contexts of parked calls are in the forecast, and warm-up makes them") {
  Fixture f;
  const auto memory = [&](int contexts, int parked) { return f.model(contexts, parked)->engine().memory(); };
  const MemoryForecast few = memory(2, 1), many = memory(2, 41), usual = memory(3, 0);
  CHECK(few.parked == 1);
  CHECK(many.parked == 41);
  CHECK(usual.parked == 12);
  CHECK(f.oracle->engine().memory().parked == 0);
  CHECK(many.one_context() == few.one_context());
  CHECK(many.all_contexts() == 43 * few.one_context());
  CHECK(many.most() >= few.most() + 30 * few.one_context());
  CHECK_MESSAGE(many.text().find("2 and for calls that wait for rows 41 of ") != std::string::npos,
                many.text());
  const ModelPtr m = f.model(2, 3);
  REQUIRE(m->warm_up(4).ok());
  f.heat(*m);
  const size_t warm = f.world.meter.all;
  f.bundle.gate->set(false);
  Cold cold(f, *m, 3);
  REQUIRE(parked(*m, 3));
  for (int i = 0; i < 5; ++i) CHECK(f.hot(*m));
  CHECK(f.world.meter.all == warm);
  f.bundle.gate->set(true);
  cold.join();
}

TEST_CASE("parking: who comes back is served before who has had no context, on the device of its own") {
  Waiter first, second, back, later, other;
  back.device = later.device = 0;
  other.device = 1;
  WaitQueue q;
  CHECK(q.first_for(0) == nullptr);
  q.join(first), q.join(second), q.join(other), q.join(back), q.join(later);
  CHECK(q.size() == 5);
  CHECK(q.first_for(0) == &back);
  CHECK(q.first_for(1) == &other);
  CHECK(q.first_for(2) == &first);
  q.leave(back);
  CHECK(q.first_for(0) == &later);
  q.leave(other);
  CHECK(q.first_for(1) == &first);
  q.leave(later), q.leave(first);
  CHECK(q.first_for(0) == &second);
  q.leave(second);
  CHECK(q.empty());
}

}  // namespace
}  // namespace dpi::test::parking_test
