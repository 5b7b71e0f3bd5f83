// What a predict on an endpoint costs more than one on a model: one row of a demo bundle, the same model
// behind both. Rounds of both alternate, so that whatever else runs on the machine meets both alike; medians,
// and the median of the rounds' differences.
//
//   endpoint_bench BUNDLE [ROUNDS]
#include <dpi/endpoint.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr int kCalls = 2000;

double now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

void require(dpi_status status, const dpi_error& e) {
  if (status == DPI_OK) return;
  std::fprintf(stderr, "%s\n", e.message);
  std::exit(1);
}

double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Nanoseconds of a call, over kCalls of them.
template <class Call>
double per_call(Call&& call) {
  const double began = now_ns();
  for (int i = 0; i < kCalls; ++i) call();
  return (now_ns() - began) / kCalls;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "endpoint_bench BUNDLE [ROUNDS]\n"), 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 2000;
  dpi_error e = DPI_ERROR_INIT;
  dpi_endpoint* endpoint = nullptr;
  dpi_model* model = nullptr;
  require(dpi_endpoint_create("bench", nullptr, &endpoint, &e), e);
  require(dpi_endpoint_load(endpoint, argv[1], 0, &e), e);
  require(dpi_endpoint_acquire(endpoint, &model, &e), e);
  dpi_model_info info{};
  info.struct_size = sizeof info;
  require(dpi_model_get_info(model, &info, &e), e);
  const std::vector<int64_t> ids(static_cast<size_t>(info.num_slots), 1);
  const std::vector<float> dense(static_cast<size_t>(info.dense_dim), 0.5f);
  std::vector<float> score(static_cast<size_t>(info.num_heads));
  dpi_batch batch = DPI_BATCH_INIT;
  batch.rows = 1;
  batch.ids = ids.data();
  batch.nnz = info.num_slots;
  batch.dense = dense.data();
  const auto on_model = [&] {
    require(dpi_predict(model, &batch, score.data(), score.size(), nullptr, &e), e);
  };
  const auto on_endpoint = [&] {
    require(dpi_endpoint_predict(endpoint, &batch, score.data(), score.size(), nullptr, &e), e);
  };
  std::vector<double> models, endpoints, more;
  for (int r = 0; r < rounds; ++r) {
    const bool first = r % 2 == 0;
    const double a = first ? per_call(on_model) : per_call(on_endpoint);
    const double b = first ? per_call(on_endpoint) : per_call(on_model);
    models.push_back(first ? a : b);
    endpoints.push_back(first ? b : a);
    more.push_back(endpoints.back() - models.back());
  }
  std::printf("model %.1f ns, endpoint %.1f ns, difference %.1f ns (medians of %d rounds of %d calls)\n",
              median(models), median(endpoints), median(more), rounds, kCalls);
  dpi_model_free(model);
  dpi_endpoint_free(endpoint);
  return 0;
}
