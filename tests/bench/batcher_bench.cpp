// One-row requests through a batcher beside direct calls: on an idle machine, and from many callers in a
// closed loop, in turns. open_loop_bench has them in an open loop. Prints one object of JSON.
//
//   make_batch_bundles.py FOLDER; batcher_bench BUNDLE [CALLERS [SECONDS]]
#include <dpi/batcher.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

namespace {

uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

void require(dpi_status status, const dpi_error& e) {
  if (status == DPI_OK) return;
  std::fprintf(stderr, "%s\n", e.message);
  std::exit(1);
}

/// The element of a share of the values, in microseconds.
double percentile(std::vector<uint64_t> v, double share) {
  if (v.empty()) return std::nan("");
  const auto at = static_cast<size_t>(share * static_cast<double>(v.size() - 1));
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(at), v.end());
  return static_cast<double>(v[at]) / 1000;
}

struct Bench {
  static constexpr size_t kRequests = 4096;
  dpi_model* model = nullptr;
  dpi_batcher* batcher = nullptr;
  std::vector<std::vector<int64_t>> ids;
  std::vector<dpi_batch> batches;
  double seconds = 2;

  void make_requests() {
    dpi_model_info info{};
    info.struct_size = sizeof info;
    dpi_model_get_info(model, &info, nullptr);
    std::mt19937_64 rng(7);
    for (size_t i = 0; i < kRequests; ++i) {
      ids.emplace_back();
      for (int32_t s = 0; s < info.num_slots; ++s) ids.back().push_back(static_cast<int64_t>(rng() % 10000));
      dpi_batch b = DPI_BATCH_INIT;
      b.rows = 1;
      b.ids = ids.back().data();
      b.nnz = info.num_slots;
      batches.push_back(b);
    }
  }
  dpi_status call(bool direct, size_t i, float* out, dpi_error* e) const {
    const dpi_batch* b = &batches[i % kRequests];
    return direct ? dpi_predict(model, b, out, 1, nullptr, e)
                  : dpi_batcher_predict(batcher, b, out, 1, nullptr, e);
  }

  /// Both in turns from one thread, so that whatever else runs meets both alike.
  void idle() const {
    dpi_error e = DPI_ERROR_INIT;
    std::vector<uint64_t> times[2];
    float out = 0;
    const uint64_t until = now_ns() + static_cast<uint64_t>(seconds * 1e9);
    for (size_t i = 0; i < 40000 && now_ns() < until; ++i) {
      const uint64_t began = now_ns();
      require(call(i % 2 == 0, i / 2, &out, &e), e);
      times[i % 2].push_back(now_ns() - began);
    }
    std::printf("{\"idle_direct_us\": %.3f, \"idle_batcher_us\": %.3f, ", percentile(times[0], 0.5),
                percentile(times[1], 0.5));
  }

  /// What one direct call of as many rows as there are callers takes: chunks can gain no more than that.
  double crowd_us(int callers) const {
    dpi_error e = DPI_ERROR_INIT;
    dpi_batch b = DPI_BATCH_INIT;
    std::vector<int64_t> all;
    for (int i = 0; i < callers; ++i)
      all.insert(all.end(), ids[static_cast<size_t>(i)].begin(), ids[static_cast<size_t>(i)].end());
    b.rows = callers;
    b.ids = all.data();
    b.nnz = static_cast<int64_t>(all.size());
    std::vector<float> out(static_cast<size_t>(callers));
    std::vector<uint64_t> times;
    for (const uint64_t until = now_ns() + 500'000'000; now_ns() < until || times.size() < 5;) {
      const uint64_t began = now_ns();
      require(dpi_predict(model, &b, out.data(), out.size(), nullptr, &e), e);
      times.push_back(now_ns() - began);
    }
    return percentile(times, 0.5);
  }

  struct Rate {
    double rows_s = 0, cpu_us = 0;  // the processor's time of a row, which other work hardly changes
  };
  static double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  }
  Rate closed(bool direct, int callers) const {
    const double cpu = cpu_seconds();
    std::atomic<uint64_t> rows{0};
    const uint64_t until = now_ns() + static_cast<uint64_t>(seconds * 1e9);
    std::vector<std::thread> threads;
    for (int t = 0; t < callers; ++t) {
      threads.emplace_back([&, t] {
        dpi_error e = DPI_ERROR_INIT;
        float out = 0;
        uint64_t done = 0;
        for (size_t i = static_cast<size_t>(t) * 257; now_ns() < until; ++i, ++done)
          require(call(direct, i, &out, &e), e);
        rows += done;
      });
    }
    for (std::thread& t : threads) t.join();
    const auto n = static_cast<double>(rows);
    return {n / seconds, (cpu_seconds() - cpu) * 1e6 / n};
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "batcher_bench BUNDLE [CALLERS [SECONDS]]\n"), 2;
  const int callers = argc > 2 ? std::atoi(argv[2]) : 16;
  Bench bench;
  if (argc > 3) bench.seconds = std::atof(argv[3]);
  dpi_error e = DPI_ERROR_INIT;
  dpi_options* options = dpi_options_create();
  require(dpi_options_set(options, "device", "cpu", &e), e);
  require(dpi_options_set(options, "batch.queue", "16", &e), e);
  require(dpi_model_load(argv[1], options, &bench.model, &e), e);
  require(dpi_model_warm_up(bench.model, 128, &e), e);
  require(dpi_batcher_create(bench.model, options, &bench.batcher, &e), e);
  bench.make_requests();
  bench.idle();
  std::printf("\"callers\": %d, \"crowd_us\": %.2f, \"turns\": [", callers, bench.crowd_us(callers));
  for (const char* between : {"", ", "}) {
    const Bench::Rate direct = bench.closed(true, callers), merged = bench.closed(false, callers);
    std::printf(
        "%s{\"direct_rows_s\": %.0f, \"batcher_rows_s\": %.0f, \"direct_cpu_us\": %.2f, \"batcher_cpu_us\": "
        "%.2f}",
        between, direct.rows_s, merged.rows_s, direct.cpu_us, merged.cpu_us);
  }
  char json[2048];
  dpi_batcher_status_json(bench.batcher, json, sizeof json);
  std::printf("], \"status\": %s}\n", json);
  dpi_batcher_free(bench.batcher);
  dpi_model_free(bench.model);
  dpi_options_free(options);
  return 0;
}
