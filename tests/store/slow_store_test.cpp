// The test-only slow store keeps its own promises, so that tests of the engine may rely on it.
#include "support/slow_store.hpp"

#include <doctest/doctest.h>

#include "backend/abi/registry.hpp"
#include "store/resident/resident_store.hpp"

namespace dpi::test::slow_store_test {
namespace {

/// Always ready.
class ReadyReader final : public StoreReader {
 public:
  Result<Readiness> acquire(const StoreRequest&) override { return Readiness::kReady; }
  void release() override {}
  kernels::TableView view(int32_t) const override { return {}; }
  uint64_t addresses() const override { return 1; }
};

class ReadyStore final : public TableStore {
 public:
  Result<StoreForecast> plan(std::vector<StoreTable>) override { return StoreForecast{}; }
  Status ingest(int32_t, int64_t, int64_t, std::span<const std::byte>) override { return {}; }
  Status ingest_scale(int32_t, std::span<const float>) override { return {}; }
  Status seal() override { return {}; }
  Result<std::unique_ptr<StoreReader>> open_reader(const ReaderLimits&) override {
    return std::unique_ptr<StoreReader>(std::make_unique<ReadyReader>());
  }
};

TEST_CASE("delays, lateness, failures") {
  auto control = std::make_shared<SlowStoreControl>();
  SlowStore store(std::make_unique<ReadyStore>(), control);
  const auto reader = store.open_reader({}).value();
  StoreRequest request;
  const auto acquire = [&](const StoreRequest& r) {
    auto ready = reader->acquire(r);
    CHECK(control->leases == (ready.ok() && ready.value() == Readiness::kReady ? 1 : 0));
    reader->release();
    return ready;
  };
  CHECK(acquire(request).value() == Readiness::kReady);
  control->late_calls = 1;
  CHECK(acquire(request).value() == Readiness::kLate);
  CHECK(acquire(request).value() == Readiness::kReady);
  control->failing_calls = 2;
  CHECK(acquire(request).status().code() == Code::kIo);
  control->failure = Code::kClosed;
  CHECK(acquire(request).status().code() == Code::kClosed);
  control->delay_ns = 3'000'000;
  const uint64_t begin = monotonic_ns();
  CHECK(acquire(request).value() == Readiness::kReady);
  CHECK(monotonic_ns() - begin >= 3'000'000);
  control->delay_ns = 3'600'000'000'000;  // an hour: the deadline must cut it
  request.deadline_ns = monotonic_ns() + 2'000'000;
  CHECK(acquire(request).value() == Readiness::kLate);
  CHECK(monotonic_ns() >= request.deadline_ns);
  control->failing_ingests = 1;
  CHECK_FALSE(store.ingest(0, 0, 0, {}).ok());
  CHECK(store.ingest(0, 0, 0, {}).ok());
  CHECK(control->acquires == 7);
  CHECK(control->ready == 3);
  CHECK(control->leases == 0);
}

TEST_CASE("acquires that have to meet go on when they have met") {
  auto control = std::make_shared<SlowStoreControl>();
  SlowStore store(std::make_unique<ReadyStore>(), control);
  const auto reader = store.open_reader({}).value();
  control->meet = 2;
  const auto second = store.open_reader({}).value();
  std::thread other([&] { CHECK(second->acquire({}).value() == Readiness::kReady); });
  CHECK(reader->acquire({}).value() == Readiness::kReady);
  other.join();
  CHECK(control->most_running == 2);
  CHECK(reader->acquire({}).value() == Readiness::kReady);  // alone, after the two have met
}

TEST_CASE("ids are counted") {
  auto control = std::make_shared<SlowStoreControl>();
  SlowStore store(std::make_unique<ReadyStore>(), control);
  const auto reader = store.open_reader({}).value();
  const int32_t ids[] = {1, 2, 3, 4, 5};
  const int32_t offsets[] = {0, 2, 2, 5};
  StoreRequest::Lookup lookups[2];
  lookups[0].ids = {ids, nullptr, nullptr, 1, 4};
  lookups[1].ids = {ids, offsets, nullptr, 0, 3};
  StoreRequest request;
  request.lookups = lookups;
  CHECK(reader->acquire(request).ok());
  CHECK(control->ids_seen == 9);
}

}  // namespace
}  // namespace dpi::test::slow_store_test
