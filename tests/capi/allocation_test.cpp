// In steady state a predict allocates nothing, whatever the batch: every malloc of the process is counted
// while it runs.
#include <dpi/batcher.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <thread>

#include "support/capi_support.hpp"
#include "support/sanitizer.hpp"
#include "support/sleep.hpp"

// A sanitizer brings its own malloc.
#define DPI_MALLOC_HOOK (!DPI_UNDER_ASAN && !DPI_UNDER_TSAN)

using namespace dpi::test;

namespace {

std::atomic<long> g_allocations{0};
std::atomic<bool> g_counting{false};

[[maybe_unused]] void note() {
  if (g_counting.load(std::memory_order_relaxed)) g_allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

#if DPI_MALLOC_HOOK
void* malloc(size_t n) {
  note();
  return __libc_malloc(n);
}
void* calloc(size_t n, size_t m) {
  note();
  return __libc_calloc(n, m);
}
void* realloc(void* p, size_t n) {
  note();
  return __libc_realloc(p, n);
}
void* aligned_alloc(size_t a, size_t n) {
  note();
  return __libc_memalign(a, n);
}
int posix_memalign(void** out, size_t a, size_t n) {
  note();
  *out = __libc_memalign(a, n);
  return *out == nullptr ? 12 : 0;
}
#endif
}

namespace {

template <class Predict>
long count_calls(Predict&& predict, const OneHotRows& rows, int calls) {
  std::vector<float> out(static_cast<size_t>(rows.batch.rows));
  for (int i = 0; i < 3; ++i) REQUIRE(predict(&rows.batch, out.data(), out.size()) == DPI_OK);
  g_allocations = 0;
  g_counting = true;
  int failed = 0;
  for (int i = 0; i < calls; ++i) failed += predict(&rows.batch, out.data(), out.size()) != DPI_OK ? 1 : 0;
  g_counting = false;
  REQUIRE(failed == 0);
  return g_allocations.load();
}

long count_predicts(dpi_model* m, const OneHotRows& rows, int calls) {
  return count_calls([m](const dpi_batch* b, float* out,
                         size_t len) { return dpi_predict(m, b, out, len, nullptr, nullptr); },
                     rows, calls);
}

}  // namespace

TEST_CASE("the counter counts") {
  if (!DPI_MALLOC_HOOK) {
    skip_program("malloc belongs to the sanitizer");
    return;
  }
  g_allocations = 0;
  g_counting = true;
  void* volatile p = std::malloc(10);
  g_counting = false;
  std::free(p);
  CHECK(g_allocations.load() == 1);
}

TEST_CASE("no allocation in a predict") {
  if (!DPI_MALLOC_HOOK) return;
  const bool quick = device() == "cpu";
  for (const char* bundle : {"adult_widedeep.h5", "bank_dcnv2.h5", "msweb_deepfm.h5", "msweb_can.h5"}) {
    const ModelPtr m = load(bundle, {{"max_contexts", "1"}, {"max_rows", quick ? "4096" : "64"}});
    // The last one: in several chunks.
    for (const int64_t n :
         quick ? std::vector<int64_t>{1, 8, 16, 512, 5000} : std::vector<int64_t>{1, 8, 16, 64, 150}) {
      CAPTURE(bundle);
      CAPTURE(n);
      CHECK(count_predicts(m.get(), OneHotRows(m.get(), n), n > 1000 ? 5 : 50) == 0);
    }
  }
}

TEST_CASE("no allocation in a predict whose call is kept as slow") {
  if (!DPI_MALLOC_HOOK) return;
  for (const char* bundle : {"adult_widedeep.h5", "msweb_deepfm.h5"}) {
    const ModelPtr m = load(bundle, {{"max_contexts", "1"}, {"slow_us", "1"}});
    for (const int64_t n : {1, 16}) CHECK(count_predicts(m.get(), OneHotRows(m.get(), n), 100) == 0);
  }
}

TEST_CASE("no allocation in a predict on an endpoint") {
  if (!DPI_MALLOC_HOOK) return;
  dpi_endpoint* e = nullptr;
  REQUIRE(dpi_endpoint_create("allocations", options({{"device", device()}}).get(), &e, nullptr) == DPI_OK);
  REQUIRE(dpi_endpoint_load(e, demo("adult_widedeep.h5").c_str(), 0, nullptr) == DPI_OK);
  const ModelPtr m = load("adult_widedeep.h5");
  const auto predict = [e](const dpi_batch* b, float* out, size_t len) {
    return dpi_endpoint_predict(e, b, out, len, nullptr, nullptr);
  };
  for (const int64_t n : {1, 16}) CHECK(count_calls(predict, OneHotRows(m.get(), n), 50) == 0);
  dpi_endpoint_free(e);
}

TEST_CASE("no allocation in calls that are recorded") {
  if (!DPI_MALLOC_HOOK) return;
  // So short a path that a copy needs no memory.
  const std::string name =
      std::filesystem::temp_directory_path() / ("rec" + std::to_string(getpid() % 10000));
  dpi_endpoint* e = nullptr;
  const OptionsPtr o = options({{"max_contexts", "1"}, {"device", device()}});
  REQUIRE(dpi_endpoint_create("recorded", o.get(), &e, nullptr) == DPI_OK);
  for (const auto& [key, value] : Pairs{{"record.share", "1"}, {"record.path", name}})
    REQUIRE(dpi_endpoint_set(e, key, value.c_str(), nullptr) == DPI_OK);
  REQUIRE(dpi_endpoint_load(e, demo("adult_widedeep.h5").c_str(), 0, nullptr) == DPI_OK);
  const ModelPtr m = load("adult_widedeep.h5");
  const auto predict = [e](const dpi_batch* b, float* out, size_t len) {
    return dpi_endpoint_predict(e, b, out, len, nullptr, nullptr);
  };
  const OneHotRows rows(m.get(), 16);
  for (int i = 0; i < 2; ++i) {  // the second time the file has the frame of the bundle
    const long allocations = count_calls(predict, rows, 50);
    if (i == 1) CHECK(allocations == 0);
    sleep_ms(200);
  }
  dpi_endpoint_free(e);
  CHECK(std::remove(name.c_str()) == 0);
}

TEST_CASE("no allocation in calls through a batcher") {
  if (!DPI_MALLOC_HOOK) return;
  const ModelPtr m = load("adult_widedeep.h5", {{"max_contexts", "2"}});
  REQUIRE(dpi_model_warm_up(m.get(), 16, nullptr) == DPI_OK);  // both contexts
  const OneHotRows one(m.get(), 1), four(m.get(), 4);
  for (const char* delay : {"0", "100"}) {  // by themselves; in chunks, with a neighbour in some
    dpi_batcher* b = nullptr;
    REQUIRE(dpi_batcher_create(m.get(), options({{"batch.max_delay_us", delay}}).get(), &b, nullptr) ==
            DPI_OK);
    const auto predict = [b](const dpi_batch* batch, float* out, size_t len) {
      return dpi_batcher_predict(b, batch, out, len, nullptr, nullptr);
    };
    const auto submit = [b](const dpi_batch* batch, float* out, size_t len) {
      uint64_t ticket = 0;
      size_t count = 0;
      dpi_completion c = DPI_COMPLETION_INIT;
      dpi_status s = dpi_batcher_submit(b, batch, out, len, nullptr, 1, &ticket, nullptr);
      while (s == DPI_OK && count == 0) s = dpi_batcher_poll(b, &c, 1, 1'000'000, &count, nullptr);
      return s == DPI_OK ? c.status : s;
    };
    std::atomic<bool> stop{false};
    std::thread neighbour([&] {
      float out = 0;
      while (!stop) static_cast<void>(predict(&one.batch, &out, 1));
    });
    for (const OneHotRows* rows : {&one, &four}) {
      CHECK(count_calls(predict, *rows, 200) == 0);
      CHECK(count_calls(submit, *rows, 200) == 0);
    }
    stop = true;
    neighbour.join();
    dpi_batcher_free(b);
  }
}
