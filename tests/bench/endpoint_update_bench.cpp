// What loads cost the callers of an endpoint: two callers, paced at a share of what they could do or
// saturated, and the p99 of their calls while nothing is loaded, and while updates are loaded one after the
// other at update.bytes_per_second.
//
//   endpoint_update_bench BUNDLE RATE UPDATE...     RATE in bytes a second, 0 = any; updates are loaded in
//   turn
#include <dpi/endpoint.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr int kCallers = 2, kRows = 64;
constexpr double kShare = 0.3, kSeconds = 8;

double now_us() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

void require(dpi_status status, const dpi_error& e) {
  if (status == DPI_OK) return;
  std::fprintf(stderr, "%s\n", e.message);
  std::exit(1);
}

struct Request {
  std::vector<int64_t> ids;
  std::vector<float> dense;
  size_t heads = 1;
};

Request make_request(dpi_endpoint* endpoint) {
  dpi_error e = DPI_ERROR_INIT;
  dpi_model* model = nullptr;
  require(dpi_endpoint_acquire(endpoint, &model, &e), e);
  dpi_model_info info{};
  info.struct_size = sizeof info;
  require(dpi_model_get_info(model, &info, &e), e);
  dpi_model_free(model);
  Request r;
  for (int64_t i = 0; i < info.num_slots * kRows; ++i) r.ids.push_back(1 + i * 7919 % 13);
  r.dense.assign(static_cast<size_t>(info.dense_dim) * kRows, 0.5f);
  r.heads = static_cast<size_t>(info.num_heads);
  return r;
}

/// Microseconds of each call of all callers; every_us 0 = one call after the other.
std::vector<double> call_for(dpi_endpoint* endpoint, const Request& request, double every_us,
                             double seconds) {
  std::vector<std::vector<double>> took(kCallers);
  std::vector<std::thread> callers;
  for (auto& mine : took) {
    callers.emplace_back([&, end = now_us() + seconds * 1e6] {
      dpi_error e = DPI_ERROR_INIT;
      std::vector<float> score(request.heads * kRows);
      dpi_batch batch = DPI_BATCH_INIT;
      batch.rows = kRows;
      batch.ids = request.ids.data();
      batch.nnz = static_cast<int64_t>(request.ids.size());
      batch.dense = request.dense.data();
      for (double due = now_us(); due < end; due = every_us > 0 ? due + every_us : now_us()) {
        while (now_us() < due)
          std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int64_t>(due - now_us()) + 1));
        const double began = now_us();
        require(dpi_endpoint_predict(endpoint, &batch, score.data(), score.size(), nullptr, &e), e);
        mine.push_back(now_us() - began);
      }
    });
  }
  for (std::thread& t : callers) t.join();
  for (size_t i = 1; i < took.size(); ++i) took[0].insert(took[0].end(), took[i].begin(), took[i].end());
  return std::move(took[0]);
}

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[static_cast<size_t>(q * static_cast<double>(v.size() - 1))];
}

struct Loads {
  std::atomic<bool> stop{false};
  int count = 0;
  double seconds = 0;
};

void load_in_turn(dpi_endpoint* endpoint, char** paths, int n, Loads* loads) {
  dpi_error e = DPI_ERROR_INIT;
  for (; !loads->stop.load(); ++loads->count) {
    const double began = now_us();
    require(dpi_endpoint_load(endpoint, paths[loads->count % n], 0, &e), e);
    loads->seconds += (now_us() - began) * 1e-6;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "endpoint_update_bench BUNDLE RATE UPDATE...\n"), 2;
  dpi_error e = DPI_ERROR_INIT;
  dpi_endpoint* endpoint = nullptr;
  require(dpi_endpoint_create("bench", nullptr, &endpoint, &e), e);
  require(dpi_endpoint_set(endpoint, "keep_seconds", "0", &e), e);
  require(dpi_endpoint_load(endpoint, argv[1], 0, &e), e);
  require(dpi_endpoint_set(endpoint, "update.bytes_per_second", argv[2], &e), e);
  const Request request = make_request(endpoint);
  const std::vector<double> most = call_for(endpoint, request, 0, 2);
  const double paced = quantile(most, 0.5) / kShare;
  for (const double every_us : {paced, 0.0}) {
    const std::vector<double> quiet = call_for(endpoint, request, every_us, kSeconds);
    Loads loads;
    std::thread loader([&] { load_in_turn(endpoint, argv + 3, argc - 3, &loads); });
    const std::vector<double> busy = call_for(endpoint, request, every_us, kSeconds);
    loads.stop.store(true);
    loader.join();
    std::printf("%s: quiet p50 %.0f p99 %.0f us; %d loads of %.2f s: p50 %.0f p99 %.0f us, p99 x %.2f\n",
                every_us > 0 ? "paced at 30 %" : "saturated", quantile(quiet, 0.5), quantile(quiet, 0.99),
                loads.count, loads.seconds / std::max(1, loads.count), quantile(busy, 0.5),
                quantile(busy, 0.99), quantile(busy, 0.99) / quantile(quiet, 0.99));
  }
  dpi_endpoint_free(endpoint);
  return 0;
}
