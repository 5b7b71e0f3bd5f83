#include "runtime/execute/context_pool.hpp"

#include <sched.h>

#include <chrono>

#include "base/clock.hpp"

namespace dpi {

namespace {

/// How often a waiting caller looks at its cancel flag.
constexpr uint64_t kPollNs = 1'000'000;

}  // namespace

ContextPool::ContextPool(const Engine& engine, int32_t size)
    : engine_(engine), free_(size), slots_(static_cast<size_t>(size)) {}

Status ContextPool::wait(const RunControl& control) {
  if (free_.try_acquire()) return {};
  while (true) {
    uint64_t step = kPollNs * 1000;
    if (control.cancel != nullptr) {
      if (__atomic_load_n(control.cancel, __ATOMIC_ACQUIRE) != 0)
        return {Code::kCancelled, "cancelled while waiting"};
      step = kPollNs;
    }
    if (control.deadline_ns != 0) {
      const uint64_t now = monotonic_ns();
      if (now >= control.deadline_ns) {
        return {Code::kTimeout,
                "all " + std::to_string(slots_.size()) +
                    " contexts were busy until the deadline; option max_contexts allows more"};
      }
      step = std::min(step, control.deadline_ns - now);
    }
    if (free_.try_acquire_for(std::chrono::nanoseconds(step))) return {};
  }
}

Result<ContextPool::Lease> ContextPool::acquire(const RunControl& control) {
  DPI_RETURN_IF_ERROR(wait(control));
  // A processor number spreads callers, and gives a thread that stays put the context whose memory its core
  // has cached.
  const auto n = static_cast<uint32_t>(slots_.size());
  const int cpu = sched_getcpu();
  const uint32_t start = cpu >= 0 ? static_cast<uint32_t>(cpu) % n : 0;
  for (uint32_t k = 0;; ++k) {
    Slot& slot = slots_[(start + k) % n];
    if (slot.busy.load(std::memory_order_relaxed) || slot.busy.exchange(true, std::memory_order_acquire))
      continue;
    Lease lease(this, static_cast<int32_t>((start + k) % n));
    if (slot.context == nullptr) {
      const ModelOptions& o = engine_.options();
      DPI_ASSIGN_OR_RETURN(slot.context, Context::create(engine_, o.max_rows, o.max_nnz));
    }
    return lease;
  }
}

void ContextPool::release(int32_t index) {
  slots_[index].busy.store(false, std::memory_order_release);
  free_.release();
}

}  // namespace dpi
