// Several host threads on one model of the emulated device: contexts share tables and weights and nothing
// else, whatever the order in which the emulation runs their work. Meant for the TSan build above all.
#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "support/capi_support.hpp"

namespace dpi::test::parallel_test {
namespace {

constexpr int kThreads = 3;
constexpr int kCalls = 4;

// Without folding even the branches of small models get streams of their own.
void run_threads(const Pairs& how, const std::string& name) {
  Pairs pairs = how;
  pairs.insert(pairs.end(),
               {{"device", "cuda_emu"}, {"max_rows", "8"}, {"max_contexts", "2"}, {"debug.fold", "off"}});
  Error e;
  dpi_model* m = nullptr;
  const std::string path = source_dir() + "/tests/e2e/golden/" + name + ".h5";
  REQUIRE_MESSAGE(dpi_model_load(path.c_str(), options(pairs).get(), &m, &e) == DPI_OK, e.text());
  const ModelPtr model(m);
  std::vector<OneHotRows> requests;
  std::vector<std::vector<float>> right, got(kThreads * kCalls);
  for (int i = 0; i < kThreads * kCalls; ++i) {
    requests.emplace_back(m, 1 + i * 7 % 19, static_cast<uint64_t>(i));
    right.push_back(requests.back().scores(m));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t * kCalls; i < (t + 1) * kCalls; ++i) {
        const OneHotRows& r = requests[static_cast<size_t>(i)];
        auto& out = got[static_cast<size_t>(i)];
        out.assign(static_cast<size_t>(r.batch.rows) * r.heads, -1.0f);
        if (dpi_predict(m, &r.batch, out.data(), out.size(), nullptr, nullptr) != DPI_OK) out.clear();
      }
    });
  }
  for (auto& t : threads) t.join();
  for (size_t i = 0; i < got.size(); ++i) CHECK(identical(got[i], right[i]));
}

TEST_CASE("parallel: threads, contexts, slots and graphs") {
  run_threads({{"debug.graphs", "on"}, {"in_flight", "2"}, {"small_batch", "off"}}, "fx_dcnv2_parallel");
}

TEST_CASE("parallel: the whole model in one kernel") {
  run_threads({{"debug.graphs", "on"}, {"in_flight", "2"}, {"small_batch", "on"}}, "fx_dcnv2_parallel");
}

#ifdef DPI_MEASURE
TEST_CASE("parallel: the same, reading each its own staging memory") {
  run_threads(
      {{"debug.graphs", "on"}, {"in_flight", "2"}, {"small_batch", "on"}, {"debug.fetch", "in_place"}},
      "fx_dcnv2_parallel");
}
#endif

TEST_CASE("parallel: streams without graphs") {
  run_threads({{"debug.graphs", "off"}, {"in_flight", "2"}, {"small_batch", "off"}}, "fx_dcn");
}

}  // namespace
}  // namespace dpi::test::parallel_test
