// In steady state a predict allocates nothing, whatever the batch: every malloc of the process is counted
// while it runs.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "capi/capi_support.hpp"
#include "support/sanitizer.hpp"

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

long count_predicts(dpi_model* m, const OneHotRows& rows, int calls) {
  std::vector<float> out(static_cast<size_t>(rows.batch.rows));
  for (int i = 0; i < 3; ++i)
    REQUIRE(dpi_predict(m, &rows.batch, out.data(), out.size(), nullptr, nullptr) == DPI_OK);
  g_allocations = 0;
  g_counting = true;
  int failed = 0;
  for (int i = 0; i < calls; ++i)
    failed += dpi_predict(m, &rows.batch, out.data(), out.size(), nullptr, nullptr) != DPI_OK ? 1 : 0;
  g_counting = false;
  REQUIRE(failed == 0);
  return g_allocations.load();
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
