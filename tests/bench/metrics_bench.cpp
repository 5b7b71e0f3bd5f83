// What measuring costs a call beyond its two readings of the clock: the library's own code around nothing,
// in turns with the two readings alone. One call in sixteen is timed by stage, as in the library.
//
//   metrics_bench [ROUNDS]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/clock.hpp"
#include "runtime/execute/call_times.hpp"

namespace {

constexpr int kCalls = 20000;

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

volatile uint64_t g_sink = 0;

/// Nanoseconds of a call, over kCalls of them.
template <class Call>
double per_call(Call&& call) {
  const uint64_t began = dpi::monotonic_ns();
  for (int i = 0; i < kCalls; ++i) call(i);
  return static_cast<double>(dpi::monotonic_ns() - began) / kCalls;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 500;
  dpi::CallTimes times;
  const auto spread = [](int i) { return 300 + static_cast<uint64_t>(i * 7919 % 1000); };
  const auto clock_only = [&](int i) {
    const uint64_t began = dpi::monotonic_ns();
    g_sink = dpi::monotonic_ns() - began + spread(i) + static_cast<uint64_t>(i % 64);
  };
  // Times spread over two octaves, so that calls do not all write one line.
  const auto measured = [&](int i) {
    const uint64_t began = dpi::monotonic_ns();
    dpi::StageTimes stages;
    const bool timed = times.next_is_timed();
    if (timed) {
      stages.start();
      for (size_t s = 0; s + 1 < dpi::StageTimes::kStages; ++s) stages.mark(static_cast<dpi::Stage>(s));
    }
    const uint64_t took = dpi::monotonic_ns() - began;
    times.record(took + spread(i), 0, 1 + i % 64, timed ? &stages : nullptr);
    g_sink = took;
  };
  std::vector<double> bare, with, more;
  for (int r = 0; r < rounds; ++r) {
    const bool first = r % 2 == 0;
    const double a = first ? per_call(clock_only) : per_call(measured);
    const double b = first ? per_call(measured) : per_call(clock_only);
    bare.push_back(first ? a : b);
    with.push_back(first ? b : a);
    more.push_back(with.back() - bare.back());
  }
  std::printf(
      "two readings %.1f ns, measured %.1f ns, difference %.1f ns (medians of %d rounds of %d calls)\n",
      median(bare), median(with), median(more), rounds, kCalls);
  return 0;
}
