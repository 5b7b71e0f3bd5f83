// The end of a model: dpi_model_free waits for running calls, those that wait for a context included. And
// what callers beyond the contexts meet meanwhile: deadlines, cancel flags, exact counts.
#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "support/capi_support.hpp"

namespace dpi::test::lifetime_test {
namespace {

constexpr int kCallers = 16;

uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

void sleep_us(int us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

/// Runs `body(i)` on kCallers threads.
template <class Body>
std::vector<std::thread> callers(Body body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kCallers; ++i) threads.emplace_back(body, i);
  return threads;
}

void join(std::vector<std::thread>& threads) {
  for (std::thread& t : threads) t.join();
}

std::string counters(const dpi_model* m) {
  std::string json(dpi_model_counters_json(m, nullptr, 0) + 64, '\0');
  json.resize(dpi_model_counters_json(m, json.data(), json.size()) - 1);
  return json;
}

/// The number after "key": in the counters; 0 when the key is not there.
uint64_t count(const std::string& json, const std::string& key) {
  const size_t at = json.find("\"" + key + "\":");
  return at == std::string::npos ? 0 : std::stoull(json.substr(at + key.size() + 3));
}

/// Rows and chunks of a call that is at work for some milliseconds: `ref` is hundreds of times slower than
/// `cpu`, and the emulated device slower still.
int64_t long_rows() { return device() == "cpu" ? 20'000 : device() == "cuda_emu" ? 32 : 128; }
std::string chunk_rows() { return device() == "cpu" ? "256" : device() == "cuda_emu" ? "8" : "16"; }
/// Threads and models cost the most there too.
int repetitions(int on_cpu) { return device() == "cpu" ? on_cpu : on_cpu / 2; }

/// One batch large enough to be at work for a while, and its scores.
struct LongCall {
  ModelPtr model;
  OneHotRows rows;
  std::vector<float> want;

  explicit LongCall(const Pairs& pairs, int64_t n = long_rows())
      : model(load("adult_widedeep.h5", pairs)), rows(model.get(), n), want(rows.scores(model.get())) {}
};

}  // namespace

TEST_CASE("free waits for the calls that run and for those that wait for a context") {
  for (const char* contexts : {"16", "3", "1"}) {
    CAPTURE(contexts);
    for (int repetition = 0; repetition < repetitions(10); ++repetition) {
      LongCall call(Pairs{{"max_contexts", contexts}, {"max_rows", chunk_rows()}});
      dpi_model* m = call.model.release();
      std::atomic<int> begun{0}, scored{0}, closed{0}, ended{0};
      auto threads = callers([&](int) {
        std::vector<float> out(call.want.size(), -1.0f);
        begun.fetch_add(1);
        const dpi_status s = dpi_predict(m, &call.rows.batch, out.data(), out.size(), nullptr, nullptr);
        if (s == DPI_OK && identical(out, call.want)) scored.fetch_add(1);
        if (s == DPI_E_CLOSED) closed.fetch_add(1);
        ended.fetch_add(1);
      });
      while (begun.load() < kCallers) std::this_thread::yield();
      sleep_us(200 * repetition);
      dpi_model_free(m);
      join(threads);
      CHECK(scored.load() + closed.load() == kCallers);  // closed: begun, but not inside yet
      if (repetition >= repetitions(10) / 2) CHECK(scored.load() > 0);
    }
  }
}

TEST_CASE("calls in loops race with free: each is finished or told that the model is closed") {
  const ModelPtr kept = load("adult_widedeep.h5");
  const OneHotRows rows(kept.get(), 3);
  const std::vector<float> want = rows.scores(kept.get());
  for (int repetition = 0; repetition < repetitions(40); ++repetition) {
    const std::string contexts = std::to_string(1 + repetition % 5);
    dpi_model* m = load("adult_widedeep.h5", {{"max_contexts", contexts}}).release();
    std::atomic<bool> stop{false};
    std::atomic<int> wrong{0};
    std::atomic<int64_t> done{0};
    auto threads = callers([&](int i) {
      std::vector<float> out(want.size());
      dpi_model_info info{};
      info.struct_size = sizeof info;
      while (!stop.load()) {
        const dpi_status s = i == 0 ? dpi_model_get_info(m, &info, nullptr)
                                    : dpi_predict(m, &rows.batch, out.data(), out.size(), nullptr, nullptr);
        const bool right = s == DPI_OK && (i == 0 || identical(out, want));
        if (!right && s != DPI_E_CLOSED) wrong.fetch_add(1);
        done.fetch_add(1);
      }
    });
    while (done.load() < 50) std::this_thread::yield();
    stop.store(true);  // whoever has not seen it is inside, or about to be
    dpi_model_free(m);
    join(threads);
    CHECK(wrong.load() == 0);
  }
}

TEST_CASE("freeing a context waits for the call on it, and the model goes with its last reference") {
  for (int repetition = 0; repetition < repetitions(10); ++repetition) {
    LongCall call(Pairs{{"max_rows", chunk_rows()}});
    dpi_context* c = nullptr;
    REQUIRE(dpi_context_create(call.model.get(), 16, 0, &c, nullptr) == DPI_OK);
    call.model.reset();  // the context keeps it
    std::atomic<bool> begun{false};
    dpi_status s = DPI_E_INTERNAL;
    std::vector<float> out(call.want.size(), -1.0f);
    std::thread caller([&] {
      begun.store(true);
      s = dpi_context_predict_batch(c, &call.rows.batch, out.data(), out.size(), nullptr, nullptr);
    });
    while (!begun.load()) std::this_thread::yield();
    sleep_us(500);
    dpi_context_free(c);
    caller.join();
    CHECK(s == DPI_OK);
    CHECK(identical(out, call.want));
  }
}

TEST_CASE("callers beyond the contexts: deadlines and cancel flags end the wait, others get their turn") {
  const LongCall call({{"max_contexts", "1"}, {"max_rows", chunk_rows()}}, 5 * long_rows());
  std::atomic<bool> stop{false}, holds{false};
  std::atomic<int> wrong{0};
  std::thread holder([&] {
    std::vector<float> out(call.want.size());
    while (!stop.load()) {
      if (dpi_predict(call.model.get(), &call.rows.batch, out.data(), out.size(), nullptr, nullptr) != DPI_OK)
        wrong.fetch_add(1);
      holds.store(true);  // and again at once
    }
  });
  while (!holds.load()) std::this_thread::yield();
  volatile int32_t cancel = 0;
  std::atomic<int> timeouts{0}, cancels{0}, scores{0};
  dpi_batch one = call.rows.batch;
  one.rows = 1;
  one.nnz = info_of(call.model.get()).num_slots;
  auto threads = callers([&](int i) {
    dpi_run_options run{};
    run.struct_size = sizeof run;
    if (i % 3 == 0) run.deadline_ns = now_ns() + 300'000;
    if (i % 3 == 1) run.cancel = &cancel;
    float out = -1.0f;
    const dpi_status s = dpi_predict(call.model.get(), &one, &out, 1, &run, nullptr);
    if (s == DPI_E_TIMEOUT && i % 3 == 0) timeouts.fetch_add(1);
    if (s == DPI_E_CANCELLED && i % 3 == 1) cancels.fetch_add(1);
    if (s == DPI_OK && out == call.want[0]) scores.fetch_add(1);
  });
  sleep_us(1'000);
  __atomic_store_n(&cancel, 1, __ATOMIC_RELEASE);
  join(threads);  // while the holder goes on: nobody starves
  stop.store(true);
  holder.join();
  CHECK(wrong.load() == 0);
  CHECK(timeouts.load() + cancels.load() + scores.load() == kCallers);
  CHECK(timeouts.load() > 0);
  CHECK(scores.load() >= 5);
  const std::string json = counters(call.model.get());
  CHECK(count(json, "9") == static_cast<uint64_t>(timeouts.load()));
  CHECK(count(json, "10") == static_cast<uint64_t>(cancels.load()));
}

TEST_CASE("counts are exact over contexts of both kinds, never fall, and outlive a context") {
  const ModelPtr m = load("adult_widedeep.h5", {{"max_contexts", "3"}});
  const OneHotRows rows(m.get(), 5);
  const uint64_t calls = count(counters(m.get()), "calls");
  const int kCalls = device() == "cuda_emu" ? 20 : repetitions(200);
  std::atomic<int> running{kCallers}, wrong{0};
  auto threads = callers([&](int i) {
    dpi_context* c = nullptr;
    if (i % 2 == 0 && dpi_context_create(m.get(), 5, 0, &c, nullptr) != DPI_OK) wrong.fetch_add(1);
    std::vector<float> out(5);
    for (int k = 0; k < kCalls; ++k) {
      const size_t len = k % 10 == 0 ? 4 : 5;  // too short: an error that is counted, no call
      const dpi_status s = c != nullptr
                               ? dpi_context_predict_batch(c, &rows.batch, out.data(), len, nullptr, nullptr)
                               : dpi_predict(m.get(), &rows.batch, out.data(), len, nullptr, nullptr);
      if (s != (len == 4 ? DPI_E_INVALID_ARGUMENT : DPI_OK)) wrong.fetch_add(1);
    }
    dpi_context_free(c);
    running.fetch_sub(1);
  });
  uint64_t last_calls = 0, last_errors = 0;
  bool fell = false;
  while (running.load() > 0) {
    const std::string json = counters(m.get());
    fell = fell || count(json, "calls") < last_calls || count(json, "1") < last_errors;
    last_calls = count(json, "calls");
    last_errors = count(json, "1");
    sleep_us(1'000);  // the callers need the processors
  }
  join(threads);
  CHECK(wrong.load() == 0);
  CHECK_FALSE(fell);
  const std::string json = counters(m.get());
  CHECK(count(json, "calls") == calls + kCallers * kCalls * 9 / 10);
  CHECK(count(json, "rows") == 5 * (calls + kCallers * kCalls * 9 / 10));
  CHECK(count(json, "1") == kCallers * kCalls / 10);
}

}  // namespace dpi::test::lifetime_test
