// Lends contexts to callers: bounded, without a lock on the fast path. A caller beyond the bound waits, with
// its deadline.
#pragma once

#include <atomic>
#include <memory>
#include <semaphore>
#include <vector>

#include "runtime/execute/context.hpp"

namespace dpi {

class ContextPool {
 public:
  ContextPool(const Engine& engine, int32_t size);

  /// Holds one context until destroyed. Contexts are created when first lent.
  class Lease {
   public:
    Lease() = default;
    Lease(ContextPool* pool, int32_t index) : pool_(pool), index_(index) {}
    Lease(Lease&& o) noexcept : pool_(o.pool_), index_(o.index_) { o.pool_ = nullptr; }
    Lease& operator=(Lease&& o) noexcept {
      std::swap(pool_, o.pool_);
      std::swap(index_, o.index_);
      return *this;
    }
    ~Lease() {
      if (pool_ != nullptr) pool_->release(index_);
    }
    Context* operator->() const { return pool_->slots_[index_].context.get(); }

   private:
    ContextPool* pool_ = nullptr;
    int32_t index_ = -1;
  };

  /// kTimeout when no context came free before the deadline, kCancelled when the flag was set meanwhile.
  Result<Lease> acquire(const RunControl& control);
  int32_t size() const { return static_cast<int32_t>(slots_.size()); }

 private:
  void release(int32_t index);
  Status wait(const RunControl& control);

  struct alignas(64) Slot {
    std::atomic<bool> busy{false};
    std::unique_ptr<Context> context;  // touched by the holder of `busy` only
  };
  const Engine& engine_;
  std::counting_semaphore<> free_;
  std::vector<Slot> slots_;
};

}  // namespace dpi
