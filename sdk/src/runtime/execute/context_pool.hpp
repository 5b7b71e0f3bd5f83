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
// A call that waits for rows parks: its place goes to others with a spare context, and the call keeps its own
// with what it holds of the store, so that it goes on where it was. When the rows are here it takes a place
// again, before callers who have had none yet, and puts its context there; the one that lies there becomes a
// spare. A context belongs to one device, and moves between places of that device only. So calls in places
// and parked ones are bounded each by itself, and who waits for rows keeps nobody from a place.
//
// While somebody waits, every word is kWanted, or the head has been told and not looked yet: so no release
// can be missed, and a release that nobody waits for reads nothing shared. The same marks let close() learn
// from the words alone that no call is left: it needs no count of running calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/execute/call_counters.hpp"
#include "runtime/execute/call_times.hpp"
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
  /// Calls at once, of which none is parked; parked ones.
  struct Bounds {
    int32_t size = 1;
    int32_t parked = 0;
  };
  /// One engine per device, of which each has a context at least.
  ContextPool(std::vector<const Engine*> engines, const Bounds& bounds, int64_t max_rows, int64_t max_nnz);
  ContextPool(const Engine& engine, const Bounds& bounds, int64_t max_rows, int64_t max_nnz)
      : ContextPool(std::vector<const Engine*>{&engine}, bounds, max_rows, max_nnz) {}
  ~ContextPool() { close(); }
  ContextPool(const ContextPool&) = delete;
  ContextPool& operator=(const ContextPool&) = delete;

  /// A context with what calls on it count.
  struct alignas(64) Kit {
    std::unique_ptr<Context> context;
    CallCounters counters{0};
    std::unique_ptr<CallTimes> times;                   // made with the context, stays when that goes
    std::atomic<const CallTimes*> times_seen{nullptr};  // for who reads
    int32_t device = 0;
    Kit* next = nullptr;  // of the spares
  };

  /// Holds one context until destroyed. Contexts are created when first lent.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& o) noexcept
        : pool_(o.pool_), kit_(o.kit_), index_(o.index_), began_ns_(o.began_ns_), waited_ns_(o.waited_ns_) {
      o.pool_ = nullptr;
    }
    Lease& operator=(Lease&& o) noexcept {
      std::swap(pool_, o.pool_);
      std::swap(kit_, o.kit_);
      std::swap(index_, o.index_);
      std::swap(began_ns_, o.began_ns_);
      std::swap(waited_ns_, o.waited_ns_);
      return *this;
    }
    ~Lease() {
      if (pool_ != nullptr) give_back();
    }
    Context* operator->() const { return kit_->context.get(); }
    Context& operator*() const { return *kit_->context; }
    CallCounters& counters() const { return kit_->counters; }
    CallTimes& times() const { return *kit_->times; }
    /// When acquire began, and how long it waited for a context that others had.
    uint64_t began_ns() const { return began_ns_; }
    uint64_t waited_ns() const { return waited_ns_; }
    /// The call waited elsewhere before, from `ns` on.
    void came_at(uint64_t ns) {
      waited_ns_ += began_ns_ - std::min(began_ns_, ns);
      began_ns_ = std::min(began_ns_, ns);
    }
    const Engine& engine() const { return *pool_->engines_[static_cast<size_t>(kit_->device)]; }

    /// False: calls of this pool keep their places.
    bool may_park() const { return pool_->parked_ > 0; }
    bool has_place() const { return index_ >= 0; }
    /// Gives the place to others and keeps the context. kQueueFull, and nothing is given: as many calls are
    /// parked as may be.
    Status park();
    /// Has a place again when it is good; while the pool closes it needs none. Else the lease stays parked.
    Status unpark(const RunControl& control);

   private:
    friend class ContextPool;
    Lease(ContextPool* pool, Kit* kit, int32_t index) : pool_(pool), kit_(kit), index_(index) {}
    void give_back() const;

    ContextPool* pool_ = nullptr;
    Kit* kit_ = nullptr;
    int32_t index_ = -1;  // of its place; -1 = it has none
    uint64_t began_ns_ = 0, waited_ns_ = 0;
  };

  /// kTimeout when no context came free before the deadline, kCancelled when the flag was set meanwhile,
  /// kClosed once close() began. Who fails while waiting is counted here.
  Result<Lease> acquire(const RunControl& control);
  /// Nothing where every context is taken, without waiting.
  Result<std::optional<Lease>> try_acquire();

  /// From now on acquire gives kClosed, but to callers that wait already: they get their turn. Returns when
  /// no lease is left and the contexts are destroyed; counts stay.
  void close();
  /// After close(): frees the counts too. Only acquire, which gives kClosed, and count_refused may follow.
  void forget_counts() { kits_.reset(); }

  int32_t size() const { return size_; }
  /// A spare context that no call has used yet, created now, without a place; nothing when there is none. For
  /// warm-up.
  Result<std::optional<Lease>> new_spare();
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
    Kit* kit = nullptr;         // read and changed by who claimed the word
    uint64_t turn_ends_ns = 0;  // under wait_.mutex
  };

  /// Kits of one device that lie in no place: with a context, and without one yet.
  struct Spares {
    Kit* used = nullptr;
    Kit* unused = nullptr;
    void put(Kit* kit);
    Kit* take();
    Kit* take_unused();
  };

  /// State that callers share when they must wait; no other call writes it.
  struct alignas(kLine) WaitState {
    std::mutex mutex;
    WaitQueue queue;
    std::condition_variable changed;  // for close()
    bool closing = false;
    WaitSums slow, untold;       // all, and those since take_slow_waits
    std::vector<Spares> spares;  // by device
    int32_t parked = 0;          // kits that lie in no place and are no spares
    uint64_t parks = 0;
    std::atomic<uint64_t> refused[CounterSums::kCodes] = {};
  };

  int32_t device_of(int32_t index) const {
    return static_cast<int32_t>(static_cast<size_t>(index) % engines_.size());
  }
  bool claim(int32_t index);
  int32_t claim_near();
  int32_t claim_on(int32_t device);
  int32_t claim_least_busy();
  void release(int32_t index);
  void release_parked(Kit* kit);
  Result<int32_t> wait(const RunControl& control, int32_t device);
  Waiter* hand(Waiter* w, int32_t index, uint64_t now);
  void serve(uint64_t now);
  void note_wait(uint64_t ns);
  Status give_up(Waiter& me, Code why);
  bool all_retired();
  Status gave_up(Code why) const;
  Status make_context(Kit* kit) const;

  const std::vector<const Engine*> engines_;  // of context i: [i % size]
  const int32_t size_, parked_;
  const int64_t max_rows_, max_nnz_;
  std::unique_ptr<Kit[]> kits_;  // size_ + parked_
  std::unique_ptr<Place[]> places_;
  WaitState wait_;
};

}  // namespace dpi
