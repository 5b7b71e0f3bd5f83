#include "runtime/execute/context_pool.hpp"

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/futex.hpp"
#include "base/static_tls.hpp"

namespace dpi {

namespace {

constexpr uint64_t kPollNs = 1'000'000;  // how often a waiting caller looks at its cancel flag
constexpr uint64_t kSlowNs = 1'000'000;  // waits from here on are counted
/// A turn at most, and what the turns of all that wait may take together: see context_pool.hpp.
constexpr uint64_t kTurnNs = 2'000'000, kRoundNs = 25'000'000;

/// Where this thread begins to look. Threads start apart; one that finds its context taken moves on and stays
/// there, so that threads that run side by side settle on contexts of their own. A mere number: it serves any
/// pool, and a thread that ends leaves nothing behind.
uint32_t& preferred() {
  static std::atomic<uint32_t> next{0};
  DPI_STATIC_TLS thread_local uint32_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

/// Counts this thread's calls to models on several devices. Each thread starts at a different number.
uint32_t next_turn() {
  DPI_STATIC_TLS thread_local uint32_t turns = 0;
  return preferred() + turns++;
}

void wake(const Waiter* w) {
  if (w != nullptr) futex_wake(&w->state);
}

}  // namespace

ContextPool::ContextPool(std::vector<const Engine*> engines, const Bounds& bounds, int64_t max_rows,
                         int64_t max_nnz)
    : engines_(std::move(engines)),
      size_(bounds.size),
      parked_(bounds.parked),
      max_rows_(max_rows),
      max_nnz_(max_nnz),
      kits_(std::make_unique<Kit[]>(static_cast<size_t>(size_) + static_cast<size_t>(parked_))),
      places_(std::make_unique<Place[]>(static_cast<size_t>(size_))) {
  wait_.spares.resize(engines_.size());
  for (int32_t i = 0; i < size_ + parked_; ++i) {
    kits_[i].counters = CallCounters(engines_[0]->schema().features.size());
    kits_[i].device = device_of(i < size_ ? i : i - size_);
    if (i < size_) {
      places_[i].kit = &kits_[i];
    } else {
      wait_.spares[static_cast<size_t>(kits_[i].device)].put(&kits_[i]);
    }
  }
}

void ContextPool::Spares::put(Kit* kit) {
  Kit*& list = kit->context != nullptr ? used : unused;
  kit->next = std::exchange(list, kit);
}

/// One with a context, where there is one.
ContextPool::Kit* ContextPool::Spares::take() {
  Kit*& list = used != nullptr ? used : unused;
  Kit* const kit = list;
  if (kit != nullptr) list = kit->next;
  return kit;
}

ContextPool::Kit* ContextPool::Spares::take_unused() {
  Kit* const kit = unused;
  if (kit != nullptr) unused = kit->next;
  return kit;
}

bool ContextPool::claim(int32_t index) {
  std::atomic<uint32_t>& word = places_[index].word;
  uint32_t free = kFree;
  return word.load(std::memory_order_relaxed) == kFree &&
         word.compare_exchange_strong(free, kClaimed, std::memory_order_acquire);
}

/// The first free context from where this thread looks first; -1 = none is free.
int32_t ContextPool::claim_near() {
  uint32_t& first = preferred();
  const auto n = static_cast<uint32_t>(size_);
  for (uint32_t k = 0, i = first % n; k < n; ++k, i = i + 1 < n ? i + 1 : 0) {
    if (!claim(static_cast<int32_t>(i))) continue;
    if (k != 0) first += k;
    return static_cast<int32_t>(i);
  }
  return -1;
}

/// The first free context of a device from where this thread looks first; -1 = none is free.
int32_t ContextPool::claim_on(int32_t device) {
  const auto devices = static_cast<int32_t>(engines_.size());
  const int32_t n = (size_ - device + devices - 1) / devices;  // contexts of this device
  const auto first = static_cast<int32_t>(preferred() % static_cast<uint32_t>(n));
  for (int32_t k = 0; k < n; ++k) {
    const int32_t index = device + (first + k) % n * devices;
    if (claim(index)) return index;
  }
  return -1;
}

/// On the device with the fewest contexts in use, of equal ones the next in turn; there the first free one
/// from where this thread looks first. -1 = another caller was quicker, or none is free.
int32_t ContextPool::claim_least_busy() {
  constexpr size_t kMost = 64;  // devices: parse_devices
  const auto devices = static_cast<int32_t>(std::min(engines_.size(), kMost));
  int32_t busy[kMost] = {}, open[kMost] = {};
  for (int32_t i = 0, d = 0; i < size_; ++i, d = d + 1 < devices ? d + 1 : 0) {
    const uint32_t word = places_[i].word.load(std::memory_order_relaxed);
    busy[d] += word == kClaimed || word == kWanted ? 1 : 0;
    open[d] += word == kFree ? 1 : 0;
  }
  const uint32_t turn = next_turn();
  int32_t best = -1;
  for (int32_t k = 0; k < devices; ++k) {
    const auto d = static_cast<int32_t>((turn + static_cast<uint32_t>(k)) % static_cast<uint32_t>(devices));
    if (open[d] > 0 && (best < 0 || busy[d] < busy[best])) best = d;
  }
  return best < 0 ? -1 : claim_on(best);
}

Result<ContextPool::Lease> ContextPool::acquire(const RunControl& control) {
  const uint64_t began = monotonic_ns();
  uint64_t waited = 0;
  int32_t index = engines_.size() > 1 ? claim_least_busy() : -1;
  if (index < 0) index = claim_near();
  if (index < 0) {
    DPI_ASSIGN_OR_RETURN(index, wait(control, -1));
    waited = monotonic_ns() - began;
  }
  Lease lease(this, places_[index].kit, index);
  lease.began_ns_ = began;
  lease.waited_ns_ = waited;
  if (lease.kit_->context == nullptr) DPI_RETURN_IF_ERROR(make_context(lease.kit_));
  return lease;
}

Result<std::optional<ContextPool::Lease>> ContextPool::try_acquire() {
  std::optional<Lease> lease;
  const uint64_t began = monotonic_ns();
  int32_t index = engines_.size() > 1 ? claim_least_busy() : -1;
  if (index < 0) index = claim_near();
  if (index < 0) return lease;
  lease = Lease(this, places_[index].kit, index);
  lease->began_ns_ = began;
  if (lease->kit_->context == nullptr) DPI_RETURN_IF_ERROR(make_context(lease->kit_));
  return lease;
}

/// For a kit that the caller holds.
Status ContextPool::make_context(Kit* kit) const {
  Status failed;
  try {
    if (kit->times == nullptr) {
      kit->times = std::make_unique<CallTimes>();
      kit->times_seen.store(kit->times.get(), std::memory_order_release);
    }
    auto made = Context::create(*engines_[static_cast<size_t>(kit->device)], max_rows_, max_nnz_);
    if (made.ok())
      kit->context = std::move(made).value();
    else
      failed = std::move(made).status();
  } catch (const std::bad_alloc&) {
    failed = Status(Code::kOutOfMemory, "out of memory");
  }
  if (!failed.ok()) kit->counters.add_error(failed.code());
  return failed;
}

Result<std::optional<ContextPool::Lease>> ContextPool::new_spare() {
  std::optional<Lease> lease;
  {
    const std::lock_guard<std::mutex> lock(wait_.mutex);
    Kit* kit = nullptr;
    for (Spares& s : wait_.spares) {
      if (kit == nullptr && !wait_.closing) kit = s.take_unused();
    }
    if (kit == nullptr) return lease;
    ++wait_.parked;
    lease = Lease(this, kit, -1);
  }
  DPI_RETURN_IF_ERROR(make_context(lease->kit_));
  return lease;
}

void ContextPool::Lease::give_back() const {
  has_place() ? pool_->release(index_) : pool_->release_parked(kit_);
}

Status ContextPool::Lease::park() {
  WaitState& wait = pool_->wait_;
  {
    const std::lock_guard<std::mutex> lock(wait.mutex);
    Kit* const spare = wait.spares[static_cast<size_t>(kit_->device)].take();
    if (spare == nullptr)
      return {Code::kQueueFull,
              std::to_string(wait.parked) + " calls wait for rows already; option store.parked allows more"};
    pool_->places_[index_].kit = spare;
    ++wait.parked;
    ++wait.parks;
  }
  pool_->release(std::exchange(index_, -1));
  return {};
}

Status ContextPool::Lease::unpark(const RunControl& control) {
  int32_t index = pool_->claim_on(kit_->device);
  if (index < 0) {
    DPI_ASSIGN_OR_RETURN(index, pool_->wait(control, kit_->device));
  }
  if (index < 0) return {};
  const std::lock_guard<std::mutex> lock(pool_->wait_.mutex);
  Kit*& in_place = pool_->places_[index].kit;
  pool_->wait_.spares[static_cast<size_t>(kit_->device)].put(std::exchange(in_place, kit_));
  --pool_->wait_.parked;  // close() waits for the place from now on
  index_ = index;
  return {};
}

/// Ends a call without a place. Nothing of the pool may be touched once the mutex is released.
void ContextPool::release_parked(Kit* kit) {
  const std::lock_guard<std::mutex> lock(wait_.mutex);
  wait_.spares[static_cast<size_t>(kit->device)].put(kit);
  --wait_.parked;
  if (wait_.closing) wait_.changed.notify_all();
}

void ContextPool::release(int32_t index) {
  std::atomic<uint32_t>& word = places_[index].word;
  uint32_t claimed = kClaimed;
  if (word.compare_exchange_strong(claimed, kFree, std::memory_order_release, std::memory_order_relaxed))
    return;  // close() may be through already: nothing of the pool may be touched
  const Waiter* woken = nullptr;
  {
    const std::lock_guard<std::mutex> lock(wait_.mutex);
    Waiter* head = wait_.queue.first_for(device_of(index));
    const uint64_t now = monotonic_ns();
    if (head == nullptr) {
      word.store(wait_.closing ? kReserved : kFree, std::memory_order_release);
      if (wait_.closing) wait_.changed.notify_all();
    } else if (wait_.closing || now >= places_[index].turn_ends_ns) {
      const bool told = head->state.load(std::memory_order_relaxed) == Waiter::kTold;
      woken = hand(head, index, now);
      if (told) serve(now);  // the next one looks at what this one was told of
    } else {
      word.store(kFree, std::memory_order_release);
      if (head->state.exchange(Waiter::kTold, std::memory_order_relaxed) == Waiter::kAsleep) woken = head;
    }
  }
  wake(woken);
}

/// Gives a context that nobody else may claim to `w`, whose turn begins. With mutex held. Returns whom to
/// wake, nullptr = it is awake; it may be gone by then: only its address is of use.
Waiter* ContextPool::hand(Waiter* w, int32_t index, uint64_t now) {
  places_[index].turn_ends_ns =
      now + std::min(kTurnNs, kRoundNs * static_cast<uint64_t>(size_) / wait_.queue.size());
  wait_.queue.leave(*w);
  const bool wanted = wait_.closing || !wait_.queue.empty();
  places_[index].word.store(wanted ? kWanted : kClaimed, std::memory_order_relaxed);
  note_wait(now - w->began_ns);
  w->index = index;
  const bool asleep = w->state.exchange(Waiter::kHanded, std::memory_order_release) == Waiter::kAsleep;
  return asleep ? w : nullptr;
}

/// Hands out what is free and marks the rest, so that its holders look at the queue. With mutex held.
void ContextPool::serve(uint64_t now) {
  for (int32_t i = 0; i < size_ && !wait_.queue.empty(); ++i) {
    Waiter* const w = wait_.queue.first_for(device_of(i));
    if (w == nullptr) continue;
    std::atomic<uint32_t>& word = places_[i].word;
    uint32_t seen = word.load(std::memory_order_relaxed);
    while ((seen == kFree || seen == kClaimed) &&
           !word.compare_exchange_weak(seen, kWanted, std::memory_order_acquire, std::memory_order_relaxed)) {
    }
    if (seen == kFree) wake(hand(w, i, now));
  }
}

namespace {

/// Sleeps until `me` is told or handed something; else why the caller waits no longer.
Code sleep(const Waiter& me, const RunControl& control) {
  while (me.state.load(std::memory_order_acquire) == Waiter::kAsleep) {
    if (control.cancel != nullptr && __atomic_load_n(control.cancel, __ATOMIC_ACQUIRE) != 0)
      return Code::kCancelled;
    uint64_t until = control.deadline_ns;
    if (control.cancel != nullptr || until != 0) {
      const uint64_t now = monotonic_ns();
      if (until != 0 && now >= until) return Code::kTimeout;
      if (control.cancel != nullptr) until = until == 0 ? now + kPollNs : std::min(until, now + kPollNs);
    }
    futex_wait(me.state, Waiter::kAsleep, until);
  }
  return Code::kOk;
}

}  // namespace

Status ContextPool::gave_up(Code why) const {
  if (why == Code::kCancelled) return {why, "cancelled while waiting"};
  return {why, "all " + std::to_string(size_) +
                   " contexts were busy until the deadline; option max_contexts allows more"};
}

void ContextPool::note_wait(uint64_t ns) {
  if (ns < kSlowNs) return;
  ++wait_.slow.count;
  wait_.slow.longest_ns = std::max(wait_.slow.longest_ns, ns);
  wait_.untold.count += 1;
  wait_.untold.longest_ns = std::max(wait_.untold.longest_ns, ns);
}

WaitSums ContextPool::take_slow_waits() {
  const std::lock_guard<std::mutex> lock(wait_.mutex);
  return std::exchange(wait_.untold, {});
}

/// Leaves the queue, with mutex held; close() may be through once it is released.
Status ContextPool::give_up(Waiter& me, Code why) {
  const uint64_t now = monotonic_ns();
  wait_.queue.leave(me);
  serve(now);  // the next one looks at what this one may have been told of
  note_wait(now - me.began_ns);
  if (wait_.closing) wait_.changed.notify_all();
  if (me.device < 0) count_refused(why);  // who has a context counts there
  return gave_up(why);
}

/// device: whoever comes back waits for this one, and gets -1 when no place is lent any more; -1 = a new
/// caller. Nothing in it may throw while `me` is in the queue: close() waits for those that wait.
Result<int32_t> ContextPool::wait(const RunControl& control, int32_t device) {
  Waiter me;
  me.device = device;
  std::unique_lock<std::mutex> lock(wait_.mutex);
  if (wait_.closing && device >= 0) return -1;
  if (wait_.closing) {
    count_refused(Code::kClosed);
    return Status(Code::kClosed, "the model is being freed");
  }
  me.began_ns = monotonic_ns();
  wait_.queue.join(me);
  serve(me.began_ns);
  while (me.state.load(std::memory_order_acquire) != Waiter::kHanded) {
    me.state.store(Waiter::kAsleep, std::memory_order_relaxed);
    lock.unlock();
    const Code failed = sleep(me, control);
    if (me.state.load(std::memory_order_acquire) == Waiter::kHanded) break;
    lock.lock();
    if (me.state.load(std::memory_order_acquire) == Waiter::kHanded) break;
    if (failed != Code::kOk) return give_up(me, failed);
    serve(monotonic_ns());
  }
  return me.index;
}

/// With mutex held: takes what is free out of use and marks the rest, so that its holders report.
bool ContextPool::all_retired() {
  bool all = true;
  for (int32_t i = 0; i < size_; ++i) {
    std::atomic<uint32_t>& word = places_[i].word;
    uint32_t seen = word.load(std::memory_order_acquire);
    while ((seen == kFree || seen == kClaimed) &&
           !word.compare_exchange_weak(seen, seen == kFree ? kReserved : kWanted, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
    }
    all = all && (seen == kFree || seen == kReserved);
  }
  return all;
}

void ContextPool::close() {
  std::unique_lock<std::mutex> lock(wait_.mutex);
  wait_.closing = true;
  serve(monotonic_ns());  // before what is free is taken out of use
  // the words first: whoever comes now must find them taken
  while (!all_retired() || !wait_.queue.empty() || wait_.parked > 0) wait_.changed.wait(lock);
  for (int32_t i = 0; kits_ != nullptr && i < size_ + parked_; ++i) kits_[i].context.reset();
}

void ContextPool::add_counts(CounterSums* sums) {
  {
    const std::lock_guard<std::mutex> lock(wait_.mutex);
    sums->waits += wait_.slow.count;
    sums->longest_wait_ns = std::max(sums->longest_wait_ns, wait_.slow.longest_ns);
    sums->parked += wait_.parks;
    sums->parked_now += static_cast<uint64_t>(wait_.parked);
  }
  for (int32_t i = 0; i < size_ + parked_; ++i) {
    const Kit& kit = kits_[i];
    kit.counters.add_to(sums);
    if (const CallTimes* times = kit.times_seen.load(std::memory_order_acquire); times != nullptr)
      times->add_to(&sums->times);
    const int32_t device = engines_[static_cast<size_t>(kit.device)]->caps().device_index;
    for (CounterSums::Device& d : sums->on) d.calls += d.index == device ? kit.counters.calls() : 0;
  }
  for (size_t c = 0; c < CounterSums::kCodes; ++c)
    sums->errors[c] += wait_.refused[c].load(std::memory_order_relaxed);
}

}  // namespace dpi
