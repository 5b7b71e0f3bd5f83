// The test-only slow store keeps its own promises, so that tests of the engine may rely on it.
#include "support/slow_store.hpp"

#include <doctest/doctest.h>

#include "backend/abi/registry.hpp"
#include "store/resident_store.hpp"

namespace dpi::test {
namespace {

/// Always ready.
class ReadyStore final : public TableStore {
 public:
  Result<StoreForecast> plan(std::vector<StoreTable>) override { return StoreForecast{}; }
  Status ingest(int32_t, int64_t, int64_t, std::span<const std::byte>) override { return {}; }
  Status ingest_scale(int32_t, std::span<const float>) override { return {}; }
  Status seal() override { return {}; }
  Result<Readiness> prepare(const StoreRequest&) override { return Readiness::kReady; }
  kernels::TableView view(int32_t) const override { return {}; }
  uint64_t version() const override { return 1; }
};

TEST_CASE("delays, lateness, failures") {
  auto control = std::make_shared<SlowStoreControl>();
  SlowStore store(std::make_unique<ReadyStore>(), control);
  StoreRequest request;
  CHECK(store.prepare(request).value() == Readiness::kReady);
  control->late_calls = 1;
  CHECK(store.prepare(request).value() == Readiness::kLate);
  CHECK(store.prepare(request).value() == Readiness::kReady);
  control->failing_calls = 2;
  CHECK(store.prepare(request).status().code() == Code::kIo);
  control->failure = Code::kClosed;
  CHECK(store.prepare(request).status().code() == Code::kClosed);
  control->delay_ns = 3'000'000;
  const uint64_t begin = monotonic_ns();
  CHECK(store.prepare(request).value() == Readiness::kReady);
  CHECK(monotonic_ns() - begin >= 3'000'000);
  control->delay_ns = 3'600'000'000'000;  // an hour: the deadline must cut it
  request.deadline_ns = monotonic_ns() + 2'000'000;
  CHECK(store.prepare(request).value() == Readiness::kLate);
  CHECK(monotonic_ns() >= request.deadline_ns);
  control->failing_ingests = 1;
  CHECK_FALSE(store.ingest(0, 0, 0, {}).ok());
  CHECK(store.ingest(0, 0, 0, {}).ok());
  CHECK(control->prepares == 7);
  CHECK(control->ready == 3);
}

TEST_CASE("prepares that have to meet go on when they have met") {
  auto control = std::make_shared<SlowStoreControl>();
  SlowStore store(std::make_unique<ReadyStore>(), control);
  control->meet = 2;
  const auto prepare = [&] { CHECK(store.prepare({}).value() == Readiness::kReady); };
  std::thread other(prepare);
  prepare();
  other.join();
  CHECK(control->most_running == 2);
  prepare();  // alone, after the two have met
}

TEST_CASE("ids are counted") {
  auto control = std::make_shared<SlowStoreControl>();
  SlowStore store(std::make_unique<ReadyStore>(), control);
  const int32_t ids[] = {1, 2, 3, 4, 5};
  const int32_t offsets[] = {0, 2, 2, 5};
  StoreRequest::Lookup lookups[2];
  lookups[0].ids = {ids, nullptr, nullptr, 1, 4};
  lookups[1].ids = {ids, offsets, nullptr, 0, 3};
  StoreRequest request;
  request.lookups = lookups;
  CHECK(store.prepare(request).ok());
  CHECK(control->ids_seen == 9);
}

}  // namespace
}  // namespace dpi::test
