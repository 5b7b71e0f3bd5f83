// Evictions for as long as one likes (DPI_TEST_TIER_MINUTES; else some seconds): eight callers of a model
// whose tier is far too small, which is freed and loaded again under them with another budget and another
// store. Every score is right, and memory, threads and descriptors stay where they were. Planted, each seen:
// 4 KiB lost by each fetch; a plugin's handle that is not closed with its model.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "store/engine/fixture.hpp"
#include "support/memory_watch.hpp"
#include "support/sanitizer.hpp"

namespace dpi::test::soak_test {
namespace {

size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

/// The model in service; callers keep the one they have begun with.
class Service {
 public:
  std::shared_ptr<dpi_model> model() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return model_;
  }
  void put(ModelPtr m) {
    std::shared_ptr<dpi_model> next = std::move(m);
    const std::lock_guard<std::mutex> lock(mutex_);
    model_.swap(next);
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<dpi_model> model_;
};

struct Tally {
  std::atomic<bool> stop{false};
  std::atomic<int64_t> right{0}, wrong{0}, refused{0}, failed{0};
};

void call(Service& service, uint64_t seed, Tally* t) {
  std::mt19937_64 rng(seed);
  while (!t->stop) {
    const Request request(random_rows(1 + rng() % 12, rng));
    const std::vector<float> want = right_scores(request);
    const std::shared_ptr<dpi_model> m = service.model();
    for (int i = 0; i < 4; ++i) {
      const Scored got = score(m.get(), request, 10'000);
      const bool full = got.code == DPI_E_QUEUE_FULL || got.code == DPI_E_OUT_OF_MEMORY;
      ++(full ? t->refused : got.code != DPI_OK ? t->failed : identical(got.out, want) ? t->right : t->wrong);
    }
  }
}

struct Flat {
  dpi::soak::MemoryWatch memory;
  std::vector<size_t> threads, files;
  void sample() {
    memory.sample();
    threads.push_back(entries("/proc/self/task"));
    files.push_back(entries("/proc/self/fd"));
  }
  /// How much more there were at most in the last two thirds than in the first.
  static int64_t grown(const std::vector<size_t>& n) {
    const auto third = n.begin() + static_cast<std::ptrdiff_t>(n.size() / 3);
    return static_cast<int64_t>(*std::max_element(third, n.end())) -
           static_cast<int64_t>(*std::max_element(n.begin(), third));
  }
};

}  // namespace

TEST_CASE("evictions, and models that come and go") {
  if (!have_models() || !redis_installed()) return;
  const char* minutes = std::getenv("DPI_TEST_TIER_MINUTES");
  const double seconds = minutes != nullptr ? 60 * std::atof(minutes) : 4;
  RedisServer redis;
  fill_store("redis", {{"address", redis.address()}});
  const Folder rows;
  std::vector<Pairs> where = {{{"store.redis_address", redis.address()}}};
  if (have_rocksdb()) {
    fill_store("rocksdb", {{"path", rows.path()}});
    where.push_back({{"store.rocksdb_path", rows.path()}});
  }
  Service service;
  Tally tally;
  Flat flat;
  std::vector<std::thread> callers;
  const uint64_t begin = now_ns();
  size_t loads = 0;
  for (; static_cast<double>(now_ns() - begin) * 1e-9 < seconds; ++loads) {
    Pairs more = where[loads % where.size()];
    more.emplace_back("max_contexts", "8");
    const char* const budgets[] = {"60000", "90000", "200000"};
    service.put(load_model(external(), tiered(budgets[loads % 3], more)));
    for (uint64_t i = callers.size(); i < 8; ++i) callers.emplace_back([&, i] { call(service, i, &tally); });
    sleep_ms(100);
    flat.sample();
  }
  tally.stop = true;
  for (std::thread& t : callers) t.join();
  MESSAGE(loads, " loads, ", tally.right.load(), " calls right, ", tally.refused.load(),
          " refused, resident ", flat.memory.first() / 1048576, " -> ", flat.memory.last() / 1048576,
          " MiB, the line rises ", flat.memory.rise() / 1048576, ", threads ", Flat::grown(flat.threads),
          ", files ", Flat::grown(flat.files));
  CHECK(tally.wrong == 0);
  CHECK(tally.failed == 0);
  CHECK(tally.right > 100 * tally.refused);
  CHECK(tally.right > 100);
  if (!DPI_UNDER_TSAN && !DPI_UNDER_ASAN)  // which keep what was freed
    CHECK(flat.memory.rise() < 16.0 * (1 << 20));
  CHECK(Flat::grown(flat.threads) <= 4);  // one model more that is being freed
  CHECK(Flat::grown(flat.files) <= 24);   // and its connections
}

}  // namespace dpi::test::soak_test
