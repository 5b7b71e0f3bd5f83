// What the sample services in Java and Go do, in C++: workers that hold a model and rows of it, handed from
// thread to thread, go over to a followed folder's new version before a request and while they idle; 8
// clients meanwhile. Every answer is one version's, versions do not go back, no request fails. It stands for
// the services under ThreadSanitizer, which sees neither what a virtual machine compiles nor how its threads
// wait for each other; Go's service runs under it as well (tests/run.d/71_service_tsan.sh). Planted, seen: a
// worker that goes back to the queue before its answer is read; under ThreadSanitizer a race.
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <queue>

#include "capi/rows_support.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::endpoint_service_test {
namespace {

constexpr int kClients = 8, kWorkers = 4;

class Worker {
 public:
  /// What fails leaves it as it was.
  void renew(dpi_endpoint* e) {
    if (model_ != nullptr && info_of(model_.get()).version == dpi_endpoint_version(e)) return;
    dpi_model* next = nullptr;
    dpi_rows* rows = nullptr;
    REQUIRE(dpi_endpoint_acquire(e, &next, nullptr) == DPI_OK);
    ModelPtr model(next);
    REQUIRE(dpi_rows_create(next, &rows, nullptr) == DPI_OK);
    rows_.reset(rows);
    model_ = std::move(model);
  }
  RowsAnswer score(const KnownRows& asked) {
    RowsAnswer a;
    dpi_rows_clear(rows_.get());
    for (size_t r = 0; r < asked.ids.size(); ++r) {
      if (r % 3 == 0) a.code = dpi_rows_begin(rows_.get(), nullptr);
      if (a.code == DPI_OK)
        a.code =
            dpi_rows_set_ids(rows_.get(), static_cast<int32_t>(r % 3), &asked.ids[r], nullptr, 1, nullptr);
      if (a.code != DPI_OK) return a;
    }
    std::vector<float> out(asked.ids.size() / 3, -1.0f);
    dpi_run_options run = DPI_RUN_OPTIONS_INIT;
    run.version = &a.version;
    Error error;
    a.code = dpi_rows_predict(rows_.get(), out.data(), out.size(), &run, &error);
    a.text = error.text();
    a.right = a.code == DPI_OK && asked.right(a.version, out);
    return a;
  }

 private:
  ModelPtr model_;
  RowsPtr rows_;
};

class Service {
 public:
  explicit Service(dpi_endpoint* e) : endpoint_(e) {
    for (Worker& w : workers_) {
      w.renew(e);
      idle_.push(&w);
    }
    renewing_ = std::thread([this] { renew_idle(); });
  }
  ~Service() {
    stop_.store(true);
    renewing_.join();
  }
  RowsAnswer score(const KnownRows& rows) {
    Worker* w = take();
    w->renew(endpoint_);
    const RowsAnswer a = w->score(rows);
    put(w);
    return a;
  }

 private:
  Worker* take() {
    std::unique_lock<std::mutex> lock(mutex_);
    free_.wait(lock, [this] { return !idle_.empty(); });
    Worker* w = idle_.front();
    idle_.pop();
    return w;
  }
  void put(Worker* w) {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push(w);
    free_.notify_one();
  }
  void renew_idle() {
    for (uint64_t seen = 0; !stop_.load(); sleep_ms(5)) {
      if (dpi_endpoint_version(endpoint_) == seen) continue;
      seen = dpi_endpoint_version(endpoint_);
      for (int i = 0; i < kWorkers; ++i) {
        Worker* w = take();
        w->renew(endpoint_);
        put(w);
      }
    }
  }

  dpi_endpoint* const endpoint_;
  Worker workers_[kWorkers];
  std::mutex mutex_;
  std::condition_variable free_;
  std::queue<Worker*> idle_;
  std::atomic<bool> stop_{false};
  std::thread renewing_;
};

void put_file(const Folder& folder, const std::string& from, const std::string& name) {
  namespace fs = std::filesystem;
  fs::copy_file(from, folder.path + "/part", fs::copy_options::overwrite_existing);
  fs::rename(folder.path + "/part", folder.path + "/" + name);
}

struct Clients {
  std::atomic<bool> stop{false};
  std::atomic<int64_t> failed{0}, wrong{0}, back{0}, asked{0};
  std::vector<std::thread> threads;

  explicit Clients(Service* service) {
    for (size_t i = 0; i < kClients; ++i) {
      threads.emplace_back([this, service, i] {
        std::mt19937_64 rng(i);
        uint64_t last = 0;
        while (!stop.load()) {
          const RowsAnswer a = service->score(KnownRows(1 + static_cast<int64_t>(i % 3), rng));
          if (a.code != DPI_OK) ++failed;
          if (a.code == DPI_OK && !a.right) ++wrong;
          if (a.version < last) ++back;
          last = a.version;
          ++asked;
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
      });
    }
  }
  void join() {
    stop.store(true);
    for (std::thread& t : threads) t.join();
    CHECK(failed.load() == 0);
    CHECK(wrong.load() == 0);
    CHECK(back.load() == 0);
    CHECK(asked.load() > kClients);
  }
};

}  // namespace

TEST_CASE("a service reloads under load: no failed request, no answer of two versions, none that goes back") {
  if (row_versions() == nullptr) return;
  const Folder folder;
  put_file(folder, row_bundle(kVersions), "v16.h5");
  const EndpointPtr e = make_endpoint("service", {{"max_contexts", "4"}});
  for (const auto& [key, value] : {std::pair("follow_ms", "2"), {"keep_seconds", "0"}, {"warm_up_rows", "2"}})
    set(e.get(), key, value);
  REQUIRE(dpi_endpoint_follow(e.get(), folder.path.c_str(), nullptr) == DPI_OK);
  REQUIRE(dpi_endpoint_wait(e.get(), kVersions, in_ms(60'000), nullptr) == DPI_OK);
  {
    Service service(e.get());
    Clients clients(&service);
    const uint64_t last = kVersions + (DPI_UNDER_TSAN || DPI_UNDER_ASAN ? 24 : 60);
    for (uint64_t n = kVersions; n < last; ++n) {
      const std::string name = "v" + std::to_string(n + 1);
      if (n % 5 == 0) folder.write("v" + std::to_string(n + 1000) + ".h5", "no bundle");
      n % 4 == 0 ? put_file(folder, row_bundle(n + 1), name + ".h5")
                 : put_file(folder, row_delta(n), name + ".delta");
      REQUIRE(dpi_endpoint_wait(e.get(), n + 1, in_ms(60'000), nullptr) == DPI_OK);
    }
    clients.join();
    CHECK(dpi_endpoint_version(e.get()) == last);
  }
}

}  // namespace dpi::test::endpoint_service_test
