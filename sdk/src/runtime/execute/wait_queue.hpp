// Callers that wait for a context, in the order in which they came. A waiter lies on its caller's stack, so
// waiting allocates nothing. The queue and a waiter's links are used under the pool's mutex.
#pragma once

#include <atomic>
#include <cstdint>

namespace dpi {

struct Waiter {
  enum State : uint32_t {
    kAsleep,
    kTold,    // a context came free: look, with the mutex
    kHanded,  // `index` is this caller's: out of the queue, and nothing of the pool is needed any more
  };

  std::atomic<uint32_t> state{kTold};
  int32_t index = -1;
  uint64_t began_ns = 0;
  Waiter* before = nullptr;
  Waiter* behind = nullptr;
};

class WaitQueue {
 public:
  Waiter* head() const { return head_; }
  bool empty() const { return head_ == nullptr; }
  uint64_t size() const { return size_; }

  void join(Waiter& w) {
    w.before = last_;
    (last_ == nullptr ? head_ : last_->behind) = &w;
    last_ = &w;
    ++size_;
  }
  void leave(Waiter& w) {
    (w.before == nullptr ? head_ : w.before->behind) = w.behind;
    (w.behind == nullptr ? last_ : w.behind->before) = w.before;
    --size_;
  }

 private:
  Waiter* head_ = nullptr;
  Waiter* last_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace dpi
