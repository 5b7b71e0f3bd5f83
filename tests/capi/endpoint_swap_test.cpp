// Endpoints under load: 16 callers while versions are swapped, made by deltas, rolled back and acquired. No
// request fails, no batch is of two versions, what a caller is told scored it did, and memory is back at its
// level. Meant for the sanitizers too: ThreadSanitizer sees here a version that is freed without draining the
// gate (tests/mutants/runtime/endpoint_undrained); runtime_endpoint_gate_test sees it anywhere.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "support/endpoint_support.hpp"
#include "support/full.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::endpoint_swap_test {
namespace {

constexpr int kCallers = 16;
constexpr std::chrono::microseconds kPause{50};  // two processors have to load bundles besides

/// What is allocated and not freed. Resident memory says less: the heaps of 16 threads keep what they had
/// once.
uint64_t heap_bytes() {
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

/// Endpoints are host code: many swaps on one device.
int swaps() {
  if (DPI_UNDER_TSAN || DPI_UNDER_ASAN) return 100;
  if (device() == "cuda_emu") return full_run() ? 100 : 30;
  return full_run() ? 1000 : device() == "cpu" ? 200 : 50;
}

/// Versions that are alive at either moment differ by 2 MiB at most. With each one left it rises by 22 MiB
/// and more (tests/mutants/runtime/endpoint_never_freed).
constexpr uint64_t kMayGrow = uint64_t{8} << 20;

/// DPI_TEST_DELTAS says otherwise: tests/run.sh --full applies ten thousand.
int deltas() {
  const char* asked = std::getenv("DPI_TEST_DELTAS");
  return asked != nullptr && swaps() == 1000 ? std::max(10, std::atoi(asked)) : swaps();
}

/// What callers may see: everything else is counted.
struct Callers {
  std::atomic<bool> stop{false};
  std::atomic<int64_t> failed{0}, mixed{0}, lied{0}, back{0}, asked{0};
  std::vector<std::thread> threads;

  /// Version n is of bundle n % kTags.
  Callers(dpi_endpoint* e, bool rises) {
    for (int i = 0; i < kCallers; ++i) {
      threads.emplace_back([this, e, rises, i] {
        const TagRows rows(1 + i % 7);
        uint64_t last = 0;
        while (!stop.load(std::memory_order_relaxed)) {
          const Answer a = ask(e, rows);
          if (a.code != DPI_OK) ++failed;
          if (a.code == DPI_OK && a.tag < 0) ++mixed;
          if (a.tag >= 0 && a.tag != static_cast<int>(a.version % kTags)) ++lied;
          if (rises && a.version < last) ++back;
          last = a.version;
          ++asked;
          std::this_thread::sleep_for(kPause);
        }
      });
    }
  }
  void join() {
    stop.store(true);
    for (std::thread& t : threads) t.join();
    CHECK(failed.load() == 0);
    CHECK(mixed.load() == 0);
    CHECK(lied.load() == 0);
    CHECK(back.load() == 0);
    CHECK(asked.load() > kCallers);
  }
};

/// Loads bundles, the n-th as version `from` + n.
void swap_through(dpi_endpoint* e, uint64_t from, int n) {
  for (int i = 0; i < n; ++i) {
    const uint64_t number = from + static_cast<uint64_t>(i);
    load(e, bundle(static_cast<int>(number % kTags)), number);
  }
}

}  // namespace

TEST_CASE("16 callers and many swaps: no failed request, no mixed batch, memory back at its level") {
  if (versions() == nullptr) return;
  for (const std::string fold : {"on", "off"}) {  // scores from scalars of the rows, and from the rows
    CAPTURE(fold);
    const EndpointPtr e = make_endpoint("swaps", {{"max_contexts", "4"}, {"debug.fold", fold}});
    set(e.get(), "keep_seconds", fold == "on" ? "0" : "300");
    set(e.get(), "warm_up_rows", "4");
    load(e.get(), bundle(1), 1);
    Callers callers(e.get(), true);
    const int tenth = swaps() / 10;
    swap_through(e.get(), 2, tenth);  // until what stays of closed models and threads is there
    const uint64_t before = heap_bytes();
    swap_through(e.get(), 2 + static_cast<uint64_t>(tenth), swaps() - tenth);
    callers.join();
    const uint64_t after = heap_bytes();
    MESSAGE("allocated ", before >> 10, " KiB after ", tenth, " swaps, ", after >> 10, " KiB after ", swaps(),
            "; ", callers.asked.load(), " requests");
    if (!DPI_UNDER_ASAN && !DPI_UNDER_TSAN) CHECK(after < before + kMayGrow);
    CHECK(dpi_endpoint_version(e.get()) == static_cast<uint64_t>(swaps()) + 1);
  }
}

TEST_CASE("16 callers and as many deltas: no failed request, no mixed batch, memory back at its level") {
  if (versions() == nullptr) return;
  for (const std::string fold : {"on", "off"}) {
    CAPTURE(fold);
    const EndpointPtr e = make_endpoint("deltas", {{"max_contexts", "4"}, {"debug.fold", fold}});
    set(e.get(), "keep_seconds", fold == "on" ? "0" : "300");
    set(e.get(), "warm_up_rows", "4");
    load(e.get(), bundle(0), kTags);
    Callers callers(e.get(), true);
    uint64_t number = kTags, before = 0;
    const int n = deltas();
    for (int i = 0; i < n; ++i, ++number) {
      const std::string from = std::to_string(number % kTags);
      load(e.get(), versions()->path + "/" + from + ".delta", number + 1);
      if (i != n / 5) continue;
      before = heap_bytes();
    }
    callers.join();
    const uint64_t after = heap_bytes();
    MESSAGE("allocated ", before >> 10, " KiB after ", n / 5, " deltas, ", after >> 10, " KiB after ", n,
            "; ", callers.asked.load(), " requests");
    if (!DPI_UNDER_ASAN && !DPI_UNDER_TSAN) CHECK(after < before + kMayGrow);
    CHECK(dpi_endpoint_version(e.get()) == number);
  }
}

TEST_CASE("rollbacks, refused bundles and held models beside callers") {
  if (versions() == nullptr) return;
  const EndpointPtr e = make_endpoint("turns", {{"max_contexts", "2"}});
  set(e.get(), "warm_up_rows", "1");
  load(e.get(), bundle(1), 1);
  Callers callers(e.get(), false);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread holder([&] {
    const TagRows rows(3);
    std::vector<float> out(3);
    while (!stop.load()) {
      dpi_model* m = nullptr;
      if (dpi_endpoint_acquire(e.get(), &m, nullptr) != DPI_OK) {
        ++wrong;
        continue;
      }
      uint64_t version = 0;
      dpi_run_options run = DPI_RUN_OPTIONS_INIT;
      run.version = &version;
      sleep_ms(2);  // the version may be gone from the endpoint by now
      if (dpi_predict(m, &rows.batch, out.data(), 3, &run, nullptr) != DPI_OK ||
          rows.tag(out) != static_cast<int>(version % kTags))
        ++wrong;
      dpi_model_free(m);
      if (status(e.get()).find("\"name\":\"turns\"") == std::string::npos) ++wrong;
    }
  });
  for (uint64_t n = 2; n < static_cast<uint64_t>(swaps() / 5); ++n) {
    load(e.get(), bundle(static_cast<int>(n % kTags)), n);
    if (n % 3 == 0) CHECK(dpi_endpoint_rollback(e.get(), nullptr) == DPI_OK);
    if (n % 5 == 0)
      CHECK(dpi_endpoint_load(e.get(), bundle("damaged").c_str(), 0, nullptr) == DPI_E_BAD_MODEL);
  }
  stop.store(true);
  holder.join();
  callers.join();
  CHECK(wrong.load() == 0);
}

TEST_CASE("freeing an endpoint stops a load, and waits for calls that run") {
  if (versions() == nullptr) return;
  for (int i = 0; i < 20; ++i) {
    EndpointPtr e = make_endpoint("ends", {{"max_contexts", "1"}});
    load(e.get(), bundle(1), 1);
    dpi_endpoint* raw = e.get();
    std::atomic<int> begun{0};
    dpi_status loaded = DPI_E_INTERNAL;
    std::thread loader([&] {
      begun.fetch_add(1);
      loaded = dpi_endpoint_load(raw, bundle("large").c_str(), 0, nullptr);
    });
    // so that the load has its lock, or is done: no call may begin once the endpoint is being freed
    while (begun.load() == 0 ||
           (status(raw).find("\"loading\"") == std::string::npos && dpi_endpoint_version(raw) == 1 &&
            status(raw).find("\"failed_loads\":0") != std::string::npos))
      std::this_thread::yield();
    e.reset();
    loader.join();
    CHECK((loaded == DPI_E_CANCELLED || loaded == DPI_OK));
  }
}

}  // namespace dpi::test::endpoint_swap_test
