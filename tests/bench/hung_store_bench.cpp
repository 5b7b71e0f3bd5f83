// Calls whose rows are in the host tier while the store below hangs: 2 contexts, 8 callers. 2 callers are
// hot; 6 ask for rows that are not cached, with deadlines of a second, and begin again when these have
// passed. In turns: the six rest; they park; they keep their contexts, as a caller's own do. A call's time is
// its own thread's: from when it is made.
//
//   hung_store_bench [SECONDS of a turn] [TURNS]
#define DOCTEST_CONFIG_DISABLE
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "runtime/gated_bundle.hpp"
#include "runtime/model/model.hpp"
#include "support/random_batch.hpp"

namespace {

using namespace dpi;
using namespace dpi::test;

constexpr int kContexts = 2, kHot = 2, kCold = 6;
constexpr int64_t kHotRows = 16;
constexpr uint64_t kColdNs = 1'000'000'000, kHotNs = 1'000'000'000;
constexpr auto kPause = std::chrono::microseconds(200);  // between a caller's hot calls

enum class Form { kQuiet, kParked, kHeld };
constexpr const char* kNames[] = {"quiet", "hung, calls park", "hung, contexts held"};

struct Turn {
  std::vector<uint64_t> ns;
  int64_t failed = 0;
};

Status call(Model& m, const RandomBatch& r, uint64_t patience_ns, bool parks) {
  std::vector<float> out(static_cast<size_t>(r.batch.item.rows * m.engine().heads()));
  RunControl control;
  control.deadline_ns = monotonic_ns() + patience_ns;
  if (parks) return m.predict(r.batch, out.data(), control);
  auto lease = m.claim(control);
  return lease.ok() ? (*lease)->run(r.batch, out.data(), control) : std::move(lease).status();
}

/// turn: its cold rows are no other's, because they come when it is over.
Turn run(Model& m, GatedFile& gate, Form form, unsigned turn, double seconds) {
  std::atomic<bool> over{false};
  std::vector<std::thread> cold, hot;
  if (form != Form::kQuiet) {
    gate.set(false);
    for (unsigned t = 0; t < kCold; ++t) {
      cold.emplace_back([&, t] {
        const RandomBatch r(m.engine().schema(), 3, 0, 100 + kCold * turn + t);
        while (!over) static_cast<void>(call(m, r, kColdNs, form == Form::kParked));
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const uint64_t end = monotonic_ns() + static_cast<uint64_t>(seconds * 1e9);
  std::vector<Turn> turns(kHot);
  for (Turn& mine : turns) {
    hot.emplace_back([&] {
      const RandomBatch r(m.engine().schema(), kHotRows, 0, 1);
      while (monotonic_ns() < end) {
        const uint64_t began = monotonic_ns();
        const bool ok = call(m, r, kHotNs, true).ok();
        mine.ns.push_back(monotonic_ns() - began);
        mine.failed += ok ? 0 : 1;
        std::this_thread::sleep_for(kPause);
      }
    });
  }
  for (std::thread& t : hot) t.join();
  over = true;
  gate.set(true);
  for (std::thread& t : cold) t.join();
  for (int i = 1; i < kHot; ++i) {
    turns[0].ns.insert(turns[0].ns.end(), turns[i].ns.begin(), turns[i].ns.end());
    turns[0].failed += turns[i].failed;
  }
  std::sort(turns[0].ns.begin(), turns[0].ns.end());
  return turns[0];
}

double us(const std::vector<uint64_t>& sorted, double quantile) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<size_t>(quantile * static_cast<double>(sorted.size() - 1));
  return static_cast<double>(sorted[at]) / 1000;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 5;
  const int turns = argc > 2 ? std::atoi(argv[2]) : 6;
  WideDeep made;
  GatedBundle bundle(made.b);
  ModelOptions options;
  for (const auto& [key, value] : {std::pair("device", "cpu"),
                                   {"max_contexts", "2"},
                                   {"store.parked", "6"},
                                   {"max_rows", "256"},
                                   {"store.host_bytes", "200000"},
                                   {"store.resident_bytes", "0"}})
    if (!set_option(&options, key, value).ok()) return 1;
  auto model = Model::create(bundle, options);
  if (!model.ok()) return std::fprintf(stderr, "%s\n", model.status().message().c_str()), 1;
  Model& m = **model;
  if (!m.warm_up(kHotRows).ok()) return 1;
  for (int i = 0; i < 100; ++i)
    static_cast<void>(call(m, RandomBatch(m.engine().schema(), kHotRows, 0, 1), kHotNs, true));
  std::vector<double> p50[3], p99[3];
  int64_t calls[3] = {}, failed[3] = {};
  for (int t = 0; t < turns; ++t) {
    for (int k = 0; k < 3; ++k) {
      const int f = (t + k) % 3;
      const Turn got = run(m, *bundle.gate, static_cast<Form>(f), static_cast<unsigned>(3 * t + k), seconds);
      p50[f].push_back(us(got.ns, 0.5)), p99[f].push_back(us(got.ns, 0.99));
      calls[f] += static_cast<int64_t>(got.ns.size()), failed[f] += got.failed;
    }
  }
  std::printf("%d callers, %d contexts, %d turns of %.0f s each; medians of turns, us\n", kHot + kCold,
              kContexts, turns, seconds);
  for (int f = 0; f < 3; ++f)
    std::printf("| %-20s | %8lld calls | %6lld failed | p50 %10.1f | p99 %10.1f |\n", kNames[f],
                static_cast<long long>(calls[f]), static_cast<long long>(failed[f]), median(p50[f]),
                median(p99[f]));
  std::printf("p99 while the store hangs over p99 without: %.3f\n",
              median(p99[static_cast<int>(Form::kParked)]) / median(p99[static_cast<int>(Form::kQuiet)]));
  return 0;
}
