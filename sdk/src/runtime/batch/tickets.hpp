// Submitted requests from their submission until somebody took their completion. Each has a ticket from a
// fixed number of them. One word of the ticket says who may end the request: it is changed from kWaiting
// once, by who scores it, cancels it or finds it late, so there is exactly one completion. The word counts
// the ticket's uses too, so that who still knows an earlier use changes nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/spin.hpp"
#include "base/status.hpp"
#include "runtime/batch/index_queue.hpp"
#include "runtime/request/request.hpp"

namespace dpi {

struct alignas(128) Ticket {
  enum Phase : uint64_t { kFree, kWaiting, kLooking, kEnding, kDone };

  std::atomic<uint64_t> word{0};  // uses << 8 | phase
  uint64_t number = 0;
  uint64_t user = 0;
  float* out = nullptr;
  float* logits = nullptr;
  uint64_t* version_out = nullptr;
  uint64_t submitted_ns = 0;
  // what became of it
  Status status;
  uint64_t version = 0, queued_ns = 0, run_ns = 0;
};

class Tickets {
 public:
  explicit Tickets(size_t count);
  ~Tickets();
  Tickets(const Tickets&) = delete;
  Tickets& operator=(const Tickets&) = delete;
  /// Opens the descriptor.
  Status open();

  /// A free ticket, null when all are in use. The caller fills it, and arms it or gives it back.
  Ticket* take();
  void give_back(Ticket* t);
  /// From now on the request may end. *number becomes the ticket's before. Returns the word by which
  /// begin_end() knows this use.
  uint64_t arm(Ticket* t, uint64_t* number);
  /// False: the use is over or ends now. True: the caller writes what became of it, and finishes.
  bool begin_end(Ticket* t, uint64_t armed) {
    for (;;) {
      uint64_t seen = armed;
      if (t->word.compare_exchange_strong(seen, armed - Ticket::kWaiting + Ticket::kEnding,
                                          std::memory_order_acq_rel))
        return true;
      if (seen != looking(armed)) return false;
      pause_looking();
    }
  }
  /// True if the flag is set of a request that waits. The caller's memory is there until the request ends, so
  /// nobody ends it meanwhile: who wants to waits for a few instructions.
  bool flag_is_set(Ticket* t, uint64_t armed, const volatile int32_t* flag) {
    uint64_t seen = armed;
    if (!t->word.compare_exchange_strong(seen, looking(armed), std::memory_order_acq_rel)) return false;
    const bool set = __atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0;
    t->word.store(armed, std::memory_order_release);
    return set;
  }
  void finish(Ticket* t);
  /// Ends a request that waits; false: there is none of this number.
  bool cancel(uint64_t number, Status why);
  /// All that wait.
  void cancel_all(const Status& why);

  /// The completion that came first; the caller reads the ticket and releases it. Null: there is none.
  Ticket* next_done();
  void release(Ticket* t);
  bool any_done() const { return done_.any(); }

  /// Readable while there are completions.
  int descriptor() const { return fd_; }
  /// No completion will come: readable for ever.
  void end_descriptor();
  /// Called when next_done() found none.
  void clear_descriptor();

  /// Memory of all of them.
  uint64_t bytes() const { return count_ * sizeof(Ticket) + free_.bytes() + done_.bytes(); }
  uint64_t submitted() const { return submitted_.load(std::memory_order_seq_cst); }
  uint64_t completed() const { return completed_.load(std::memory_order_seq_cst); }
  uint64_t taken() const { return taken_.load(std::memory_order_seq_cst); }
  uint64_t cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

 private:
  static uint64_t looking(uint64_t armed) { return armed - Ticket::kWaiting + Ticket::kLooking; }
  void signal();

  const size_t count_;
  std::unique_ptr<Ticket[]> tickets_;
  IndexQueue free_, done_;
  int fd_ = -1;
  std::atomic<uint32_t> signalled_{0};
  std::atomic<bool> ended_{false};
  alignas(128) std::atomic<uint64_t> submitted_{0};
  std::atomic<uint64_t> completed_{0}, taken_{0}, cancelled_{0};
};

}  // namespace dpi
