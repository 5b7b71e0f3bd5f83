// Callers that wait for a context: first those who had one and come back for the device that theirs is on,
// then the others; each in the order in which they came. A waiter lies on its caller's stack, so waiting
// allocates nothing. The queue and a waiter's links are used under the pool's mutex.
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
  int32_t device = -1;  // comes back for this one; -1 = the first time, for any
  int32_t index = -1;
  uint64_t began_ns = 0;
  Waiter* before = nullptr;
  Waiter* behind = nullptr;
};

class WaitQueue {
 public:
  /// Whose turn it is when a context of `device` comes free; null = nobody's.
  Waiter* first_for(int32_t device) const {
    for (Waiter* w = back_.head; w != nullptr; w = w->behind) {
      if (w->device == device) return w;
    }
    return new_.head;
  }
  bool empty() const { return size_ == 0; }
  uint64_t size() const { return size_; }

  void join(Waiter& w) {
    List& l = list_of(w);
    w.before = l.last;
    (l.last == nullptr ? l.head : l.last->behind) = &w;
    l.last = &w;
    ++size_;
  }
  void leave(Waiter& w) {
    List& l = list_of(w);
    (w.before == nullptr ? l.head : w.before->behind) = w.behind;
    (w.behind == nullptr ? l.last : w.behind->before) = w.before;
    --size_;
  }

 private:
  struct List {
    Waiter* head = nullptr;
    Waiter* last = nullptr;
  };
  List& list_of(const Waiter& w) { return w.device >= 0 ? back_ : new_; }

  List back_, new_;
  uint64_t size_ = 0;
};

}  // namespace dpi
