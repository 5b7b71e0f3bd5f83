// Requests in an open loop, through a batcher and by direct calls: one thread begins each at its planned
// arrival (Poisson), whether or not the ones before have ended, and latency counts from that arrival, so a
// thread that is late makes its requests late. Requests are made beforehand. Prints one object of JSON:
// `capacity`, what the saturated batcher scores; `chunk_us`, a direct call of batch.max_rows rows on one
// thread; a list of points, shares of the capacity.
//
//   open_loop_bench BUNDLE ROWS [SECONDS]         under_load.py runs it; ROWS > 1 are one user's candidates
//
// The generator has a processor of its own; the batcher's threads, or as many that call directly, have the
// others. A direct call that has not ended half a second after the last arrival counts as one that took until
// then.
#include <dpi/batcher.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr uint64_t kSecond = 1'000'000'000;

uint64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * kSecond + static_cast<uint64_t>(t.tv_nsec);
}

[[noreturn]] void fail(const char* text) {
  std::fprintf(stderr, "open_loop_bench: %s\n", text);
  std::exit(1);
}

void require(dpi_status status, const dpi_error& e) {
  if (status != DPI_OK) fail(e.message);
}

/// The processors that this process may use: the first is the generator's.
struct Processors {
  std::vector<int> all;
  Processors() {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) all.push_back(i);
    }
  }
  int workers() const { return std::max<int>(1, static_cast<int>(all.size()) - 1); }
  /// Of this thread, and of threads that it starts from now on.
  void go(bool generator) const {
    if (all.size() < 2) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = generator ? 0 : 1; i < (generator ? 1 : all.size()); ++i) CPU_SET(all[i], &set);
    sched_setaffinity(0, sizeof set, &set);
  }
};

/// One request: rows of one user, or one row without a shared part.
struct Request {
  std::vector<int64_t> ids, shared_ids, shared_offsets;
  dpi_batch batch = DPI_BATCH_INIT;

  Request(const dpi_model_info& info, int64_t rows, int64_t users, std::mt19937_64& rng) {
    const bool shared = users > 0;
    const auto draw = [&](int64_t n) {
      std::vector<int64_t> v(static_cast<size_t>(n));
      for (int64_t& x : v) x = static_cast<int64_t>(rng() % 10000);
      return v;
    };
    ids = draw(rows * (shared ? info.num_item_slots : info.num_slots));
    batch.rows = rows;
    batch.ids = ids.data();
    batch.nnz = static_cast<int64_t>(ids.size());
    if (!shared) return;
    shared_ids = draw(users * info.num_shared_slots);
    for (int64_t u = 0; u <= users; ++u) shared_offsets.push_back(rows * u / users);
    batch.shared_rows = users;
    batch.shared_offsets = shared_offsets.data();
    batch.shared_ids = shared_ids.data();
    batch.shared_nnz = static_cast<int64_t>(shared_ids.size());
  }
  Request(Request&&) = default;
};

/// Arrivals, and what became of each.
struct Trace {
  std::vector<uint64_t> arrivals, took;  // took: 0 = refused
  std::atomic<uint64_t> ended{0};
  uint64_t refused = 0, unanswered = 0;
  std::vector<uint64_t> late;  // how late the generator began each

  Trace(double rate, double seconds) {
    std::mt19937_64 rng(11);
    std::exponential_distribution<double> gap(rate);
    const uint64_t began = now_ns() + 20'000'000;
    for (double at = 0; at < seconds; at += gap(rng))
      arrivals.push_back(began + static_cast<uint64_t>(at * 1e9));
    took.assign(arrivals.size(), 0);
    late.reserve(arrivals.size());
  }
  void await_arrival(size_t i) {
    uint64_t now = now_ns();
    while (now < arrivals[i]) now = now_ns();
    late.push_back(now - arrivals[i]);
  }
  uint64_t end() const { return arrivals.empty() ? now_ns() : arrivals.back() + kSecond / 2; }
};

/// The element of a share of the values that are not 0, in microseconds; sorts them.
double percentile(std::vector<uint64_t>& v, double share) {
  std::erase(v, uint64_t{0});
  std::sort(v.begin(), v.end());
  return v.empty()
             ? 0
             : static_cast<double>(v[static_cast<size_t>(share * static_cast<double>(v.size() - 1))]) / 1000;
}

class Bench {
 public:
  Bench(const char* path, int64_t rows, double seconds) : rows_(rows), seconds_(seconds) {
    processors_.go(false);
    options_ = dpi_options_create();
    const std::string workers = std::to_string(processors_.workers());
    for (const auto& [key, value] : {std::pair<const char*, std::string>{"device", "cpu"},
                                     {"max_contexts", workers},
                                     {"batch.running", workers},
                                     {"batch.threads", workers}})
      require(dpi_options_set(options_, key, value.c_str(), &e_), e_);
    require(dpi_model_load(path, options_, &model_, &e_), e_);
    require(dpi_model_warm_up(model_, kMaxRows, &e_), e_);
    dpi_model_info info{};
    info.struct_size = sizeof info;
    require(dpi_model_get_info(model_, &info, &e_), e_);
    if (info.num_heads != 1) fail("the model has several heads");
    if (rows > 1 && info.num_shared_slots == 0) fail("the model has no user features");
    std::mt19937_64 rng(7);
    const auto users = [&](int64_t n) { return rows > 1 ? (n + rows - 1) / rows : 0; };
    for (size_t i = 0; i < (rows == 1 ? 4096u : 512u); ++i)
      requests_.emplace_back(info, rows, users(rows), rng);
    largest_ = std::make_unique<Request>(info, kMaxRows, users(kMaxRows), rng);
  }
  ~Bench() {
    dpi_model_free(model_);
    dpi_options_free(options_);
  }
  Bench(const Bench&) = delete;

  void run(const char* name) {
    const double chunk = call_us(*largest_), one = call_us(requests_[0]);
    const double capacity = saturated() * static_cast<double>(rows_);
    std::printf(
        "{\"model\": \"%s\", \"rows\": %lld, \"workers\": %d, \"max_rows\": %lld, \"chunk_us\": %.1f, "
        "\"direct_us\": %.1f, \"capacity_rows_s\": %.0f, \"points\": [",
        name, static_cast<long long>(rows_), processors_.workers(), static_cast<long long>(kMaxRows), chunk,
        one, capacity);
    const char* between = "";
    for (const int load : {50, 80, 95, 110}) {
      const double rate = capacity / static_cast<double>(rows_) * load / 100;
      for (const bool direct : {false, true}) {
        Trace t(rate, seconds_ * (load == 95 && !direct ? 3 : 1));
        direct ? directly(t) : batched(t);
        report(t, load, direct, rate, between);
        between = ",";
      }
    }
    std::printf("]}\n");
  }

 private:
  static constexpr int64_t kMaxRows = 128;  // batch.max_rows by default

  const Request& request(size_t i) const { return requests_[i % requests_.size()]; }

  /// The median of direct calls, one after another.
  double call_us(const Request& r) {
    std::vector<uint64_t> times;
    std::vector<float> out(static_cast<size_t>(r.batch.rows));
    for (const uint64_t until = now_ns() + kSecond / 2; now_ns() < until || times.size() < 5;) {
      const uint64_t began = now_ns();
      require(dpi_predict(model_, &r.batch, out.data(), out.size(), nullptr, &e_), e_);
      times.push_back(now_ns() - began);
    }
    return percentile(times, 0.5);
  }

  struct Sink {
    Trace* trace;
    static void hear(void* self, const dpi_completion* c) {
      Trace& t = *static_cast<Sink*>(self)->trace;
      if (c->status == DPI_OK && !t.arrivals.empty()) t.took[c->user] = now_ns() - t.arrivals[c->user];
      ++t.ended;
    }
  };
  dpi_batcher* make_batcher(Sink* sink) {
    processors_.go(false);
    dpi_batcher* b = nullptr;
    require(dpi_batcher_create(model_, options_, &b, &e_), e_);
    require(dpi_batcher_set_callback(b, Sink::hear, sink, &e_), e_);
    processors_.go(true);
    return b;
  }
  void end(dpi_batcher* b) {
    require(dpi_batcher_close(b, 0, &e_), e_);
    dpi_batcher_free(b);
  }

  /// Requests a second of a batcher that always has more of them.
  double saturated() {
    Trace none(1, 0);
    none.arrivals.clear();
    Sink sink{&none};
    dpi_batcher* const b = make_batcher(&sink);
    std::vector<float> out(static_cast<size_t>(rows_) * kOuts);
    uint64_t began = 0, before = 0, now = 0;
    const uint64_t first = now_ns(), until = first + static_cast<uint64_t>((seconds_ + 0.2) * 1e9);
    for (size_t i = 0; (now = now_ns()) < until;) {
      if (began == 0 && now > first + kSecond / 5) {  // full by now
        began = now;
        before = none.ended;
      }
      uint64_t ticket = 0;
      const dpi_status s =
          dpi_batcher_submit(b, &request(i).batch, &out[i % kOuts * static_cast<size_t>(rows_)],
                             static_cast<size_t>(rows_), nullptr, 0, &ticket, nullptr);
      if (s == DPI_OK)
        ++i;
      else
        while (now_ns() < now + 2000) continue;  // leaves the batcher's lines to its threads
    }
    const double rate = static_cast<double>(none.ended - before) * 1e9 / static_cast<double>(now - began);
    end(b);
    return rate;
  }

  void batched(Trace& t) {
    Sink sink{&t};
    dpi_batcher* const b = make_batcher(&sink);
    std::vector<float> out(static_cast<size_t>(rows_) * kOuts);
    for (size_t i = 0; i < t.arrivals.size(); ++i) {
      t.await_arrival(i);
      uint64_t ticket = 0;
      const dpi_status s =
          dpi_batcher_submit(b, &request(i).batch, &out[i % kOuts * static_cast<size_t>(rows_)],
                             static_cast<size_t>(rows_), nullptr, i, &ticket, nullptr);
      if (s == DPI_E_QUEUE_FULL)
        ++t.refused;
      else if (s != DPI_OK)
        fail(dpi_status_name(s));
    }
    end(b);
  }

  void directly(Trace& t) {
    processors_.go(false);
    std::counting_semaphore<> arrived(0);
    std::atomic<size_t> next{0};
    std::vector<std::thread> workers;
    for (int w = 0; w < processors_.workers(); ++w) {
      workers.emplace_back([&] {
        std::vector<float> out(static_cast<size_t>(rows_));
        for (;;) {
          arrived.acquire();
          const size_t i = next.fetch_add(1);
          if (i >= t.arrivals.size()) return;
          if (now_ns() < t.end()) {
            dpi_error e = DPI_ERROR_INIT;
            require(dpi_predict(model_, &request(i).batch, out.data(), out.size(), nullptr, &e), e);
            t.took[i] = now_ns() - t.arrivals[i];
          } else {
            t.took[i] = t.end() - t.arrivals[i];
          }
        }
      });
    }
    processors_.go(true);
    for (size_t i = 0; i < t.arrivals.size(); ++i) {
      t.await_arrival(i);
      arrived.release();
    }
    arrived.release(processors_.workers());
    for (std::thread& w : workers) w.join();
    for (size_t i = 0; i < t.took.size(); ++i) t.unanswered += t.took[i] == t.end() - t.arrivals[i] ? 1 : 0;
  }

  static void report(Trace& t, int load, bool direct, double rate, const char* between) {
    const size_t n = t.arrivals.size();
    const double late = percentile(t.late, 0.999), p50 = percentile(t.took, 0.5),
                 p99 = percentile(t.took, 0.99), p999 = percentile(t.took, 0.999);
    std::printf(
        "%s\n  {\"how\": \"%s\", \"load\": %d, \"requests_s\": %.0f, \"requests\": %zu, \"refused\": %llu, "
        "\"unanswered\": %llu, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"generator_p999_us\": "
        "%.1f}",
        between, direct ? "direct" : "batcher", load, rate, n, static_cast<unsigned long long>(t.refused),
        static_cast<unsigned long long>(t.unanswered), p50, p99, p999, late);
    std::fflush(stdout);
  }

  static constexpr size_t kOuts = 8192;  // more than requests can be on their way
  const int64_t rows_;
  const double seconds_;
  const Processors processors_;
  dpi_error e_ = DPI_ERROR_INIT;
  dpi_options* options_ = nullptr;
  dpi_model* model_ = nullptr;
  std::vector<Request> requests_;
  std::unique_ptr<Request> largest_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "open_loop_bench BUNDLE ROWS [SECONDS]\n"), 2;
  const char* const slash = std::strrchr(argv[1], '/');
  std::string name = slash != nullptr ? slash + 1 : argv[1];
  name.resize(std::min(name.size(), name.find('.')));
  Bench bench(argv[1], std::atoll(argv[2]), argc > 3 ? std::atof(argv[3]) : 2);
  bench.run(name.c_str());
  return 0;
}
