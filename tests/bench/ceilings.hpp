// What this machine can do at most, measured in the same process as the bench that is compared with it, on
// one core. Every number is the best of several short runs: other work on the machine only ever makes a run
// slower.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace dpi::bench {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Shortest of the runs of `f` within about `budget` seconds, at least 5 runs after one to warm up.
template <class F>
double best_seconds(F&& f, double budget = 0.3) {
  f();
  double best = 1e30;
  const double start = seconds_now();
  for (int i = 0; i < 5 || seconds_now() - start < budget; ++i) {
    const double t = seconds_now();
    f();
    const double d = seconds_now() - t;
    best = d < best ? d : best;
  }
  return best;
}

struct FreeMemory {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<char, FreeMemory>;

/// Zeroed, in huge pages where the kernel grants them.
Memory make_memory(int64_t bytes);

/// Bytes of the tables that gathers run over: many times the last-level cache.
constexpr int64_t kTableBytes = int64_t{1} << 30;

/// `n` random numbers below `bound`.
std::vector<int32_t> random_ids(int64_t n, int64_t bound, uint32_t seed);

/// GB/s of reading random rows of row_bytes (a multiple of 64, or 32) from `table` with prefetches at the
/// best of several distances.
double gather_ceiling(const char* table, int64_t row_bytes);

/// GB/s (read + written) of memcpy over `bytes` of source.
double copy_ceiling(int64_t bytes);

/// GB/s of reading `bytes` from front to back in the widest registers, and GFLOP/s of independent
/// multiply-adds in them; 0 on a processor that has neither AVX-512 nor AVX2.
double read_ceiling(int64_t bytes);
double fma_ceiling();

/// GFLOP/s of oneDNN's better form (matmul, inner product) with packed weights and a fused relu; 0 without
/// oneDNN.
double onednn_gflops(int64_t m, int64_t n, int64_t k);

}  // namespace dpi::bench
