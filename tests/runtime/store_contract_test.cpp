// The engine honours the storage contract: nothing is launched before acquire says ready, each lease is given
// back, late becomes a timeout, a failure is passed on, and what was working goes on working. The store is a
// resident one that behaves like a far one.
#include <doctest/doctest.h>

#include <cmath>
#include <latch>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "runtime/model/model.hpp"
#include "store/resident/resident_store.hpp"
#include "support/device.hpp"
#include "support/slow_store.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::store_contract_test {
namespace {

/// A demo model whose tables stand behind a slow store, on host memory of its own.
struct SlowModel {
  std::shared_ptr<SlowStoreControl> control = std::make_shared<SlowStoreControl>();
  backend::OpenedBackend memory;
  std::unique_ptr<Bundle> bundle;
  std::unique_ptr<Model> model;
  Status loaded;
  std::vector<int64_t> ids;
  std::vector<float> dense;
  Batch batch;

  explicit SlowModel(int failing_ingests = 0, int32_t contexts = 4) {
    control->failing_ingests = failing_ingests;
    auto opened = Bundle::open(dpi::test::source_dir() + "/weights/demo/adult_widedeep.h5");
    REQUIRE(opened.ok());
    bundle = std::move(opened).value();
    backend::BackendRequest request;
    request.device = "ref";
    request.options.struct_size = sizeof request.options;
    request.options.isa = "auto";
    auto backend = backend::open_backend(request);
    REQUIRE(backend.ok());
    memory = backend.value();
    ModelOptions options;
    options.device = test::device();
    options.max_rows = 8;
    options.max_contexts = contexts;
    auto store = std::make_unique<SlowStore>(make_resident_store(memory.api, memory.device, 0), control);
    auto made = Model::create(*bundle, options, std::move(store));
    if (!made.ok()) {
      loaded = std::move(made).status();
      return;
    }
    model = std::move(made).value();
    const BatchColumns& l = model->engine().schema().columns;
    ids.assign(static_cast<size_t>(20 * l.n_slots), 1);
    dense.assign(static_cast<size_t>(20 * l.n_columns), 0.5f);
    batch.item.rows = 20;
    batch.item.ids = ids.data();
    batch.item.nnz = static_cast<int64_t>(ids.size());
    batch.item.dense = dense.data();
  }
  ~SlowModel() {
    CHECK(control->leases == 0);
    model.reset();
    memory.api->close(memory.device);
  }
  Status predict(std::vector<float>* out, uint64_t deadline_ns = 0) {
    out->assign(20, std::nanf(""));
    RunControl control_of_call;
    control_of_call.deadline_ns = deadline_ns;
    return model->predict(batch, out->data(), control_of_call);
  }
};

}  // namespace

TEST_CASE("each chunk has one lease while it runs") {
  SlowModel m;
  REQUIRE(m.loaded.ok());
  std::vector<float> out;
  REQUIRE(m.predict(&out).ok());
  CHECK(m.control->acquires.load() == 3);  // 20 rows in chunks of 8
  CHECK(m.control->ids_seen.load() >= 20 * 8);
  for (const float p : out) CHECK((p > 0.0f && p < 1.0f));
}

TEST_CASE("late rows are a timeout, and nothing of that chunk is scored") {
  SlowModel m;
  std::vector<float> out;
  m.control->late_calls = 1;
  CHECK(m.predict(&out).code() == Code::kTimeout);
  for (const float p : out) CHECK(std::isnan(p));
  CHECK(m.predict(&out).ok());  // and the next call works
}

TEST_CASE("a delay that outlasts the deadline is a timeout; one that does not is waited for") {
  SlowModel m;
  std::vector<float> out;
  m.control->delay_ns = 20'000'000;
  CHECK(m.predict(&out, monotonic_ns() + 5'000'000).code() == Code::kTimeout);
  CHECK(m.predict(&out, monotonic_ns() + 30'000'000'000u).ok());
}

TEST_CASE("a failing store is passed on with its code and text") {
  SlowModel m;
  std::vector<float> out;
  m.control->failure = Code::kIo;
  m.control->failing_calls = 1;
  const Status s = m.predict(&out);
  CHECK(s.code() == Code::kIo);
  CHECK(s.message().find("slow store") != std::string::npos);
  CHECK(m.predict(&out).ok());
}

TEST_CASE("a table that cannot be stored fails the load") {
  SlowModel m(1);
  CHECK(m.loaded.code() == Code::kIo);
}

TEST_CASE("slow acquires of several callers overlap") {
  SlowModel m;
  m.control->meet = 2;
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<float> out;
      if (!m.predict(&out).ok()) ++failed;
    });
  }
  for (auto& t : threads) t.join();
  CHECK(failed.load() == 0);
  CHECK(m.control->most_running.load() >= 2);
}

TEST_CASE("callers beyond the contexts take turns, however long a store keeps each call") {
  constexpr int kCallers = 4, kEach = 8;
  SlowModel m(0, 2);
  REQUIRE(m.loaded.ok());
  m.control->delay_ns = 10'000'000;  // of each of a call's three chunks
  std::atomic<int> begun{0};
  std::vector<int> calls(kCallers), passed(kCallers);
  std::latch together(kCallers);
  std::vector<std::thread> callers;
  for (size_t t = 0; t < kCallers; ++t) {
    callers.emplace_back([&, t] {
      std::vector<float> out;
      together.arrive_and_wait();
      while (begun < kCallers * kEach) {
        const int before = ++begun;
        CHECK(m.predict(&out).ok());
        ++calls[t];
        passed[t] = std::max(passed[t], begun - before);
      }
    });
  }
  for (std::thread& t : callers) t.join();
  for (size_t t = 0; t < kCallers; ++t) {
    CAPTURE(t);
    CHECK(std::abs(calls[t] - kEach) <= 4);  // 6 where two callers kept the contexts to themselves
    CHECK(passed[t] <= 2 * kCallers);        // calls of others that began while one of its own went on
  }
}

}  // namespace dpi::test::store_contract_test
