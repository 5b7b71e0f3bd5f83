// Calls of few rows whose large products are cut: the bits of one thread whoever comes, with nobody there
// too; callers who have the processors among them.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/model/model.hpp"
#include "support/built_bundle.hpp"
#include "support/device.hpp"
#include "support/full.hpp"
#include "support/paper_models.hpp"
#include "support/random_batch.hpp"

namespace dpi::test::crew_test {
namespace {

constexpr int32_t kPlenty = 64;  // processors

ModelBuilder large_layers(PaperModel kind = PaperModel::kDcnV2) {
  PaperShape shape;
  shape.vocab = 30;
  shape.hidden = {500, 330, 400};
  return paper_model(kind, shape);
}

std::shared_ptr<Environment> roomy(int32_t processors = kPlenty) {
  auto e = Environment::create();
  e->pool().set_processors(processors);
  return e;
}

ModelOptions with_threads(int32_t threads, std::shared_ptr<Environment> environment) {
  ModelOptions o;
  o.environment = std::move(environment);
  o.device = device();
  o.threads = threads;
  o.spin_us = 200;
  o.max_rows = 256;
  o.max_contexts = 4;
  return o;
}

std::unique_ptr<Model> load(ModelBuilder& builder, const ModelOptions& options) {
  BuiltBundle bundle(builder);
  auto made = Model::create(bundle, options);
  REQUIRE_MESSAGE(made.ok(), made.status().message());
  return std::move(made).value();
}

std::vector<float> scores(Model& model, const Batch& batch) {
  std::vector<float> out(static_cast<size_t>(batch.item.rows), -1.0f);
  const Status s = model.predict(batch, out.data(), {});
  REQUIRE_MESSAGE(s.ok(), s.message());
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Sizes of calls whose columns are shared out; none on a backend that cuts nothing.
std::vector<int64_t> crew_sizes(const Model& model) {
  const WorkRows cuts = model.engine().work_rows(true);
  std::vector<int64_t> sizes;
  for (int64_t rows = cuts.crew_rows; rows < 2 * cuts.min_share; rows += 1 + rows / 4) sizes.push_back(rows);
  return sizes;
}

TEST_CASE("columns shared out among any number of threads give the bits of one") {
  for (const Precision precision : {Precision::kFp32, Precision::kBf16, Precision::kInt8}) {
    ModelBuilder builder = large_layers();
    ModelOptions alone = with_threads(1, roomy());
    alone.precision = precision;
    BuiltBundle bundle(builder);
    auto made = Model::create(bundle, alone);
    if (made.status().code() == Code::kUnsupported) continue;  // what the processor or the backend lacks
    REQUIRE_MESSAGE(made.ok(), made.status().message());
    const std::unique_ptr<Model> one = std::move(made).value();
    for (const int32_t threads : {2, 3, 8}) {
      ModelOptions options = with_threads(threads, roomy());
      options.precision = precision;
      const auto many = load(builder, options);
      const auto sizes = crew_sizes(*many);
      CHECK(sizes.empty() == (device() != "cpu"));
      for (const int64_t rows : sizes) {
        CAPTURE(threads);
        CAPTURE(rows);
        const RandomBatch request(one->engine().schema(), rows, 0, static_cast<unsigned>(rows));
        const auto want = scores(*one, request.batch);
        for (int i = 0; i < 20; ++i) CHECK(same_bits(scores(*many, request.batch), want));
      }
    }
  }
}

/// Every thread of a pool, its caller among them, until it is let go.
struct AllBusy {
  std::atomic<int> running{0};
  std::atomic<bool> go{false};
  std::thread caller;

  AllBusy(ThreadPool& pool, int32_t threads) {
    caller = std::thread([this, &pool, threads] {
      pool.run(
          threads,
          [](void* self, int32_t) {
            auto& b = *static_cast<AllBusy*>(self);
            ++b.running;
            while (!b.go) std::this_thread::yield();
          },
          this);
    });
    while (running < threads) std::this_thread::yield();
  }
  ~AllBusy() {
    go = true;
    caller.join();
  }
  AllBusy(const AllBusy&) = delete;
  AllBusy& operator=(const AllBusy&) = delete;
};

TEST_CASE("nobody waits for a thread that does not come") {
  ModelBuilder builder = large_layers();
  const auto one = load(builder, with_threads(1, roomy()));
  const auto many = load(builder, with_threads(3, roomy()));
  const AllBusy busy(many->engine().pool(), 3);
  for (const int64_t rows : {int64_t{1}, int64_t{7}, 4 * many->engine().work_rows(false).min_share}) {
    const RandomBatch request(one->engine().schema(), rows, 0, 5);
    CHECK(same_bits(scores(*many, request.batch), scores(*one, request.batch)));
  }
}

TEST_CASE("callers side by side, three models of one environment") {
  const PaperModel kinds[] = {PaperModel::kDcnV2, PaperModel::kDeepFm, PaperModel::kWideDeep};
  for (const int32_t processors : {2, kPlenty}) {
    const auto environment = roomy(processors);
    std::vector<std::unique_ptr<Model>> one, two;
    for (const PaperModel kind : kinds) {
      ModelBuilder builder = large_layers(kind);
      one.push_back(load(builder, with_threads(1, roomy())));
      two.push_back(load(builder, with_threads(2, environment)));
    }
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (unsigned c = 0; c < 2; ++c) {
      callers.emplace_back([&, c] {
        for (int turn = 0; turn < (device() == "ref" && !full_run() ? 9 : 40); ++turn) {  // ref is slow
          const size_t m = (static_cast<size_t>(turn) + c) % two.size();
          const RandomBatch request(one[m]->engine().schema(), 1 + turn * 7 % 60, 0, c);
          if (!same_bits(scores(*two[m], request.batch), scores(*one[m], request.batch))) ++wrong;
        }
      });
    }
    for (auto& c : callers) c.join();
    CHECK(wrong == 0);
    CHECK_FALSE(environment->pool().crowded(processors));  // all callers have gone
  }
}

TEST_CASE("a product is whole before the next one reads it") {
  if (device() != "cpu") return;  // nothing is cut
  PaperShape shape;               // parts of tens of microseconds: others are often in the middle of one
  shape.vocab = 30;
  shape.hidden = {2500, 2500, 2500};
  ModelBuilder builder = paper_model(PaperModel::kDeepFm, shape);
  const auto one = load(builder, with_threads(1, roomy()));
  const auto two = load(builder, with_threads(2, roomy()));
  const RandomBatch request(one->engine().schema(), 2 * two->engine().work_rows(true).min_share - 1, 0, 5);
  const auto want = scores(*one, request.batch);
  for (int i = 0; i < 100; ++i) CHECK(same_bits(scores(*two, request.batch), want));
}

/// How often threads named dpi-pool have gone to sleep.
int64_t sleeps_of_pools() {
  int64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm"), status(task.path() / "status");
    std::string name, word;
    if (!std::getline(comm, name) || name != "dpi-pool") continue;
    while (status >> word) {
      if (word != "voluntary_ctxt_switches:") continue;
      int64_t n = 0;
      status >> n;
      sum += n;
    }
  }
  return sum;
}

/// Waits until they have been asleep for a while.
int64_t settled_sleeps() {
  int64_t last = -1, now = sleeps_of_pools();
  for (int i = 0; i < 100 && (now == 0 || now != last); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(60));
    last = std::exchange(now, sleeps_of_pools());
  }
  return now;
}

/// Whether a call wakes a thread of the pool, beside a caller or alone.
bool wakes(Model& model, const Batch& batch, bool beside) {
  const int64_t before = settled_sleeps();
  {
    std::unique_ptr<ThreadPool::Caller> other;
    if (beside) other = std::make_unique<ThreadPool::Caller>(model.engine().pool());
    scores(model, batch);
  }
  for (int i = 0; i < (beside ? 50 : 2000) && sleeps_of_pools() == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return sleeps_of_pools() != before;
}

TEST_CASE("a caller beside another wakes nobody where there are two processors") {
  ModelBuilder builder = large_layers();
  ModelOptions options = with_threads(2, roomy(2));
  options.spin_us = 0;
  const auto model = load(builder, options);
  const RandomBatch rows(model->engine().schema(), 4 * model->engine().work_rows(false).min_share, 0, 5);
  CHECK_FALSE(wakes(*model, rows.batch, true));
  CHECK(wakes(*model, rows.batch, false));
}

bool same_rows(const WorkRows& a, const WorkRows& b) {
  return a.min_share == b.min_share && a.crew_rows == b.crew_rows;
}

TEST_CASE("warm-up chooses sizes, and scores do not depend on them") {
  ModelBuilder builder = large_layers();
  const auto one = load(builder, with_threads(1, roomy()));
  const auto counted = load(builder, with_threads(2, roomy()));
  const auto measured = load(builder, with_threads(2, roomy()));
  REQUIRE(measured->warm_up(64).ok());
  for (const bool awake : {false, true}) {
    const WorkRows rows = measured->engine().work_rows(awake), before = counted->engine().work_rows(awake);
    CHECK(rows.min_share % kTileRows == 0);
    CHECK(rows.min_share >= kTileRows);
    CHECK(rows.min_share <= 8 * before.min_share);
    CHECK((rows.crew_rows == kNoRows || rows.crew_rows < 2 * rows.min_share));
  }
  for (const int64_t rows : {1, 4, 13, 40}) {
    const RandomBatch request(one->engine().schema(), rows, 0, 5);
    CHECK(same_bits(scores(*measured, request.batch), scores(*one, request.batch)));
  }
}

TEST_CASE("warm-up beside callers, or with one processor, believes the counts") {
  ModelBuilder builder = large_layers();
  const auto counted = load(builder, with_threads(2, roomy()));
  for (const bool alone : {false, true}) {
    const auto model = load(builder, with_threads(2, roomy(alone ? 1 : kPlenty)));
    const ThreadPool::Caller first(model->engine().pool()), second(model->engine().pool());
    REQUIRE(model->warm_up(64).ok());
    for (const bool awake : {false, true})
      CHECK(same_rows(model->engine().work_rows(awake), counted->engine().work_rows(awake)));
  }
}

TEST_CASE("callers count on the processors that others leave, and left a moment ago") {
  ThreadPool pool;
  pool.set_processors(3);
  const ThreadPool::Caller first(pool);
  CHECK(first.threads(8) == 3);
  CHECK(first.threads(2) == 2);
  CHECK_FALSE(pool.crowded(2));
  {
    const ThreadPool::Caller second(pool);
    CHECK(second.threads(8) == 2);
    CHECK(first.threads(8) == 2);
    CHECK(pool.crowded(2));
    CHECK_FALSE(pool.crowded(1));
    const ThreadPool::Caller third(pool), fourth(pool);
    CHECK(third.threads(8) == 1);
    CHECK(fourth.threads(8) == 1);
  }
  CHECK_FALSE(pool.crowded(2));
  std::this_thread::sleep_for(std::chrono::nanoseconds(3 * ThreadPool::kMemoryNs));
  CHECK(first.threads(8) == 3);
}

TEST_CASE("callers whose calls seldom overlap are remembered side by side") {
  ThreadPool pool;
  pool.set_processors(2);
  const ThreadPool::Caller first(pool);
  const auto remembered = [&] {  // within one look: the memory may end while this thread sleeps
    {
      const ThreadPool::Caller second(pool);
    }
    return first.threads(2) == 1;
  };
  CHECK((remembered() || remembered() || remembered()));
}

TEST_CASE("a pool has the processors of the thread that starts it") {
  ThreadPool pool;
  REQUIRE(pool.grow(1).ok());
  CHECK(pool.processors() >= 1);
  pool.set_processors(7);
  CHECK(pool.processors() == 7);
}

TEST_CASE("share 0 is the caller's") {
  ThreadPool pool;
  REQUIRE(pool.grow(4).ok());
  pool.spin_for(300'000);
  struct Seen {
    std::thread::id caller;
    std::atomic<int> by_caller{0}, shares{0};
  } seen;
  seen.caller = std::this_thread::get_id();
  for (int i = 0; i < 200; ++i) {
    pool.run(
        4,
        [](void* context, int32_t share) {
          auto& s = *static_cast<Seen*>(context);
          ++s.shares;
          if (share == 0 && std::this_thread::get_id() == s.caller) ++s.by_caller;
        },
        &seen);
  }
  CHECK(seen.by_caller == 200);
  CHECK(seen.shares == 800);
}

}  // namespace
}  // namespace dpi::test::crew_test
