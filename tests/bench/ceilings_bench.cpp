// Prints the ceilings of this machine, one core: random gathers, copies and reads by working
// set, multiply-adds.
#include "bench/bench.hpp"

int main(int argc, char** argv) {
  using namespace dpi::bench;
  benchmark::Initialize(&argc, argv);
  const Memory table = make_memory(kTableBytes);
  for (const int64_t row : {32, 64, 128, 256}) {
    add("BM_gather/" + std::to_string(row), [row, &table](benchmark::State& state) {
      for (auto _ : state) {
        const double rate = gather_ceiling(table.get(), row);
        state.SetIterationTime(static_cast<double>(row) / rate * 1e-9);
        state.counters["GB/s"] = rate;
      }
    });
  }
  for (const int64_t kib : {16, 256, 4096, 262144}) {
    add("BM_copy/" + std::to_string(kib) + "KiB", [kib](benchmark::State& state) {
      for (auto _ : state) {
        const double rate = copy_ceiling(kib * 1024);
        state.SetIterationTime(static_cast<double>(2 * kib * 1024) / rate * 1e-9);
        state.counters["GB/s"] = rate;
      }
    });
  }
  for (const int64_t kib : {512, 8192, 262144}) {
    add("BM_read/" + std::to_string(kib) + "KiB", [kib](benchmark::State& state) {
      for (auto _ : state) {
        const double rate = read_ceiling(kib * 1024);
        state.SetIterationTime(static_cast<double>(kib * 1024) / rate * 1e-9);
        state.counters["GB/s"] = rate;
      }
    });
  }
  add("BM_fma", [](benchmark::State& state) {
    for (auto _ : state) {
      const double rate = fma_ceiling();
      state.SetIterationTime(1 / rate * 1e-9);
      state.counters["GFLOP/s"] = rate;
    }
  });
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
