// What the benches share: values, one run = the best of several, and counters with the share of the ceiling.
#pragma once

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "bench/ceilings.hpp"
#include "kernels/cpu/tables.hpp"

namespace dpi::bench {

inline const kernels::cpu::Functions& best_set() { return kernels::cpu::functions(kernels::cpu::best_isa()); }

inline std::vector<float> random_floats(int64_t n, uint32_t seed = 1) {
  std::mt19937 rng(seed);
  std::uniform_real_distribution<float> u(-0.5f, 0.5f);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = u(rng);
  return v;
}

inline kernels::Dims dims_of(std::initializer_list<int64_t> d) {
  kernels::Dims dims;
  for (const int64_t x : d) dims.d[dims.rank++] = x;
  return dims;
}

inline kernels::Tensor tensor(std::vector<float>& v, int64_t rows, const kernels::Dims& dims) {
  return {v.data(), rows, dims.size(), dims};
}

/// Ends the program when a kernel is wrong: a time for a wrong answer is worth nothing.
inline void require_close(const std::vector<float>& got, const std::vector<float>& want, double tolerance,
                          const char* what) {
  for (size_t i = 0; i < got.size(); ++i) {
    const double w = want[i];
    if (std::fabs(got[i] - w) <= tolerance * std::fmax(1.0, std::fabs(w))) continue;
    std::fprintf(stderr, "%s: element %zu is %g, expected %g\n", what, i, static_cast<double>(got[i]), w);
    std::exit(1);
  }
}

/// Reports the best run of `f` as the benchmark's time. work: bytes or floating-point operations of one run,
/// in units of 1e9 per second under `unit`, beside the ceiling in the same unit (0: none).
template <class F>
void report(benchmark::State& state, F&& f, double work, const char* unit, double ceiling) {
  for (auto _ : state) {
    const double t = best_seconds(f, 1.0);
    state.SetIterationTime(t);
    state.counters[unit] = work / t * 1e-9;
    if (ceiling > 0) {
      state.counters["ceiling"] = ceiling;
      state.counters["share"] = work / t * 1e-9 / ceiling;
    }
  }
}

/// Registers one case; its time is measured inside `report`.
template <class F>
void add(const std::string& name, F&& body) {
  benchmark::RegisterBenchmark(name.c_str(), std::forward<F>(body))
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

}  // namespace dpi::bench
