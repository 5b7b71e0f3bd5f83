// A table store that behaves like a far one: it wraps a resident store and makes prepare slow, late or
// failing on demand. It proves that the engine honours the storage contract (nothing is launched before
// kReady; kLate becomes a timeout; an error is passed on).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "store/table_store.hpp"

namespace dpi::test {

/// What the store does from now on and what it has seen. Shared with the test, which may change it at any
/// time.
struct SlowStoreControl {
  std::atomic<uint64_t> delay_ns{
      0};                          // of each prepare; cut short at the caller's deadline, which makes it late
  std::atomic<int> late_calls{0};  // so many next prepares answer kLate at once
  std::atomic<int> failing_calls{0};     // so many next prepares fail
  std::atomic<Code> failure{Code::kIo};  // with this code
  std::atomic<int> failing_ingests{0};   // so many next ingests fail

  std::atomic<int> meet{0};  // so many prepares have to be inside at once before one goes on; given up after
                             // a minute, for all
  std::atomic<int> prepares{0};  // finished calls
  std::atomic<int> ready{0};
  std::atomic<int> running{0};  // calls inside prepare
  std::atomic<int> most_running{0};
  std::atomic<int64_t> ids_seen{0};  // of one-id lookups and bags
};

class SlowStore final : public TableStore {
 public:
  SlowStore(std::unique_ptr<TableStore> inner, std::shared_ptr<SlowStoreControl> control)
      : inner_(std::move(inner)), control_(std::move(control)) {}

  Result<StoreForecast> plan(std::vector<StoreTable> tables) override {
    return inner_->plan(std::move(tables));
  }
  Status ingest(int32_t table, int64_t first_row, int64_t n_rows, std::span<const std::byte> rows) override {
    if (take(&control_->failing_ingests)) return {control_->failure, "slow store: ingest fails as asked"};
    return inner_->ingest(table, first_row, n_rows, rows);
  }
  Status ingest_scale(int32_t table, std::span<const float> scale) override {
    return inner_->ingest_scale(table, scale);
  }
  Status seal() override { return inner_->seal(); }
  kernels::TableView view(int32_t table) const override { return inner_->view(table); }
  uint64_t version() const override { return inner_->version(); }

  Result<Readiness> prepare(const StoreRequest& request) override {
    const int running = ++control_->running;
    int most = control_->most_running.load();
    while (running > most && !control_->most_running.compare_exchange_weak(most, running)) {
    }
    wait_for_others();
    Result<Readiness> answer = answer_to(request);
    if (answer.ok() && answer.value() == Readiness::kReady) ++control_->ready;
    --control_->running;
    ++control_->prepares;
    return answer;
  }

 private:
  /// Counts down, but not below 0: true while there is something to take.
  static bool take(std::atomic<int>* left) {
    int n = left->load();
    while (n > 0 && !left->compare_exchange_weak(n, n - 1)) {
    }
    return n > 0;
  }

  void wait_for_others() {
    const uint64_t end = monotonic_ns() + 60'000'000'000u;
    while (control_->most_running < control_->meet) {
      if (monotonic_ns() > end) control_->meet = 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  Result<Readiness> answer_to(const StoreRequest& request) {
    for (const StoreRequest::Lookup& l : request.lookups) {
      const bool bags = l.ids.offsets != nullptr;
      control_->ids_seen +=
          bags && l.ids.rows > 0 ? l.ids.offsets[l.ids.rows] - l.ids.offsets[0] : l.ids.rows;
    }
    if (take(&control_->failing_calls))
      return Status(control_->failure, "slow store: prepare fails as asked");
    if (take(&control_->late_calls)) return Readiness::kLate;
    const uint64_t end = monotonic_ns() + control_->delay_ns;
    const bool late = request.deadline_ns != 0 && end > request.deadline_ns;
    const uint64_t until = late ? request.deadline_ns : end;
    for (uint64_t now = monotonic_ns(); now < until; now = monotonic_ns()) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min<uint64_t>(until - now, 1'000'000)));
    }
    if (late) return Readiness::kLate;
    return inner_->prepare(request);
  }

  std::unique_ptr<TableStore> inner_;
  std::shared_ptr<SlowStoreControl> control_;
};

}  // namespace dpi::test
