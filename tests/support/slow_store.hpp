// A table store that behaves like a far one: it wraps a resident store and makes acquire slow, late or
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
#include "support/forwarding_store.hpp"

namespace dpi::test {

/// What the store does from now on and what it has seen. Shared with the test, which may change it at any
/// time.
struct SlowStoreControl {
  std::atomic<uint64_t> delay_ns{
      0};                          // of each acquire; cut short at the caller's deadline, which makes it late
  std::atomic<int> late_calls{0};  // so many next acquires answer kLate at once
  std::atomic<int> failing_calls{0};     // so many next acquires fail
  std::atomic<Code> failure{Code::kIo};  // with this code
  std::atomic<int> failing_ingests{0};   // so many next ingests fail

  std::atomic<int> meet{0};  // so many acquires have to be inside at once before one goes on; given up after
                             // a minute, for all
  std::atomic<int> acquires{0};  // finished calls
  std::atomic<int> ready{0};
  std::atomic<int> running{0};  // calls inside acquire
  std::atomic<int> most_running{0};
  std::atomic<int> leases{0};        // held now
  std::atomic<int64_t> ids_seen{0};  // of one-id lookups and bags
};

/// Counts down, but not below 0: true while there is something to take.
inline bool take(std::atomic<int>* left) {
  int n = left->load();
  while (n > 0 && !left->compare_exchange_weak(n, n - 1)) {
  }
  return n > 0;
}

class SlowReader final : public ForwardingReader {
 public:
  SlowReader(std::unique_ptr<StoreReader> inner, std::shared_ptr<SlowStoreControl> control)
      : ForwardingReader(std::move(inner)), control_(std::move(control)) {}

  Result<Readiness> acquire(const StoreRequest& request) override {
    const int running = ++control_->running;
    int most = control_->most_running.load();
    while (running > most && !control_->most_running.compare_exchange_weak(most, running)) {
    }
    wait_for_others();
    Result<Readiness> answer = answer_to(request);
    if (answer.ok() && answer.value() == Readiness::kReady) ++control_->ready;
    --control_->running;
    ++control_->acquires;
    return answer;
  }

  void release() override {
    if (leased_) --control_->leases;
    leased_ = false;
    ForwardingReader::release();
  }

 private:
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
      return Status(control_->failure, "slow store: acquire fails as asked");
    if (take(&control_->late_calls)) return Readiness::kLate;
    const uint64_t end = monotonic_ns() + control_->delay_ns;
    const bool late = request.deadline_ns != 0 && end > request.deadline_ns;
    const uint64_t until = late ? request.deadline_ns : end;
    for (uint64_t now = monotonic_ns(); now < until; now = monotonic_ns()) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(std::min<uint64_t>(until - now, 1'000'000)));
    }
    if (late) return Readiness::kLate;
    const auto ready = ForwardingReader::acquire(request);
    leased_ = ready.ok() && ready.value() == Readiness::kReady;
    if (leased_) ++control_->leases;
    return ready;
  }

  std::shared_ptr<SlowStoreControl> control_;
  bool leased_ = false;
};

class SlowStore final : public ForwardingStore {
 public:
  SlowStore(std::unique_ptr<TableStore> inner, std::shared_ptr<SlowStoreControl> control)
      : ForwardingStore(std::move(inner)), control_(std::move(control)) {}

  Status ingest(int32_t table, int64_t first_row, int64_t n_rows, std::span<const std::byte> rows) override {
    if (take(&control_->failing_ingests)) return {control_->failure, "slow store: ingest fails as asked"};
    return ForwardingStore::ingest(table, first_row, n_rows, rows);
  }
  Result<std::unique_ptr<StoreReader>> open_reader(const ReaderLimits& limits) override {
    DPI_ASSIGN_OR_RETURN(std::unique_ptr<StoreReader> inner, ForwardingStore::open_reader(limits));
    return std::unique_ptr<StoreReader>(std::make_unique<SlowReader>(std::move(inner), control_));
  }

 private:
  std::shared_ptr<SlowStoreControl> control_;
};

}  // namespace dpi::test
