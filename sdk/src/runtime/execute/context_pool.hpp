// Lends contexts to callers: bounded, each through a line of its own. A caller claims a context by that
// context's word and gives it back by the same word; it touches what callers share only when every context is
// taken. A caller beyond the bound waits, with its deadline.
//
// Of a model on several devices each context belongs to one, in turn. A call goes to the device with the
// fewest contexts in use, which the words say: it reads them and writes nothing but the word that it claims.
// Devices that are as busy as each other take turns.
//
// A word says who may change it:
//   kFree     anyone may claim it
//   kClaimed  its holder gives it back with one exchange on this line, and touches nothing of the pool after
//   kWanted   claimed, and somebody waits: the holder gives it back under wait_.mutex
//   kReserved nobody's: the pool is closing
//
// Who waits stands in a queue (wait_queue.hpp), and contexts go to its head. Each hand-over costs the wake of
// a thread, so whoever is handed a context has a turn of two milliseconds, less in a crowd: what is given
// back during the turn may be claimed by anyone, most likely by the thread that runs already, while the head
// is told to look. What is given back later is the head's. So a longer call is a turn by itself, and short
// calls share a wake.
//
// While somebody waits, every word is kWanted, or the head has been told and not looked yet: so no release
// can be missed, and a release that nobody waits for reads nothing shared. The same marks let close() learn
// from the words alone that no call is left: it needs no count of running calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/execute/call_counters.hpp"
#include "runtime/execute/context.hpp"
#include "runtime/execute/wait_queue.hpp"

namespace dpi {

/// Waits for a context of a millisecond or more.
struct WaitSums {
  uint64_t count = 0;
  uint64_t longest_ns = 0;
};

class ContextPool {
 public:
  /// One engine per device, of which each has a context at least.
  ContextPool(std::vector<const Engine*> engines, int32_t size, int64_t max_rows, int64_t max_nnz);
  ContextPool(const Engine& engine, int32_t size, int64_t max_rows, int64_t max_nnz)
      : ContextPool(std::vector<const Engine*>{&engine}, size, max_rows, max_nnz) {}
  ~ContextPool() { close(); }
  ContextPool(const ContextPool&) = delete;
  ContextPool& operator=(const ContextPool&) = delete;

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
    Context* operator->() const { return pool_->places_[index_].context.get(); }
    Context& operator*() const { return *pool_->places_[index_].context; }
    CallCounters& counters() const { return pool_->places_[index_].counters; }
    const Engine& engine() const { return pool_->engine_of(index_); }

   private:
    ContextPool* pool_ = nullptr;
    int32_t index_ = -1;
  };

  /// kTimeout when no context came free before the deadline, kCancelled when the flag was set meanwhile,
  /// kClosed once close() began. Who fails while waiting is counted here.
  Result<Lease> acquire(const RunControl& control);

  /// From now on acquire gives kClosed, but to callers that wait already: they get their turn. Returns when
  /// no lease is left and the contexts are destroyed; counts stay.
  void close();

  int32_t size() const { return size_; }
  /// A call that failed without a context.
  void count_refused(Code code) {
    wait_.refused[static_cast<size_t>(code)].fetch_add(1, std::memory_order_relaxed);
  }
  void add_counts(CounterSums* sums);
  /// Slow waits since it was asked last.
  WaitSums take_slow_waits();

 private:
  enum Word : uint32_t { kFree, kClaimed, kWanted, kReserved };

  /// Processors fetch lines in pairs, hence two.
  static constexpr size_t kLine = 128;

  struct alignas(kLine) Place {
    std::atomic<uint32_t> word{kFree};
    std::unique_ptr<Context> context;  // touched by who claimed the word
    CallCounters counters{0};
    uint64_t turn_ends_ns = 0;  // under wait_.mutex
  };

  /// State that callers share when they must wait; no other call writes it.
  struct alignas(kLine) WaitState {
    std::mutex mutex;
    WaitQueue queue;
    std::condition_variable changed;  // for close()
    bool closing = false;
    WaitSums slow, untold;  // all, and those since take_slow_waits
    std::atomic<uint64_t> refused[CounterSums::kCodes] = {};
  };

  const Engine& engine_of(int32_t index) const {
    return *engines_[static_cast<size_t>(index) % engines_.size()];
  }
  bool claim(int32_t index);
  int32_t claim_near();
  int32_t claim_least_busy();
  void release(int32_t index);
  Result<int32_t> wait(const RunControl& control);
  Waiter* hand(int32_t index, uint64_t now);
  void serve(uint64_t now);
  void note_wait(uint64_t ns);
  Status give_up(Waiter& me, Code why);
  bool all_retired();
  Status gave_up(Code why) const;
  Result<std::unique_ptr<Context>> make_context(int32_t index);

  const std::vector<const Engine*> engines_;  // of context i: [i % size]
  const int32_t size_;
  const int64_t max_rows_, max_nnz_;
  std::unique_ptr<Place[]> places_;
  WaitState wait_;
};

}  // namespace dpi
