#include "runtime/execute/context_pool.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.hpp"
#include "base/static_tls.hpp"

namespace dpi {

namespace {

/// How often a waiting caller looks at its cancel flag, and after how long contexts are kept for those that
/// wait: until then whoever comes first takes what is free, which wastes no switch between threads.
constexpr uint64_t kPollNs = 1'000'000, kPatienceNs = 1'000'000;
constexpr uint64_t kLongNs = 1'000'000'000;

/// Where this thread begins to look. Threads start apart; one that finds its context taken moves on and stays
/// there, so that threads that run side by side settle on contexts of their own. A mere number: it serves any
/// pool, and a thread that ends leaves nothing behind.
uint32_t& preferred() {
  static std::atomic<uint32_t> next{0};
  DPI_STATIC_TLS thread_local uint32_t mine = next.fetch_add(1, std::memory_order_relaxed);
  return mine;
}

/// Of this thread's calls to models on several devices. Threads start apart here too.
uint32_t next_turn() {
  DPI_STATIC_TLS thread_local uint32_t turns = 0;
  return preferred() + turns++;
}

}  // namespace

ContextPool::ContextPool(std::vector<const Engine*> engines, int32_t size, int64_t max_rows, int64_t max_nnz)
    : engines_(std::move(engines)),
      size_(size),
      max_rows_(max_rows),
      max_nnz_(max_nnz),
      places_(std::make_unique<Place[]>(static_cast<size_t>(size))) {
  for (int32_t i = 0; i < size_; ++i)
    places_[i].counters = CallCounters(engines_[0]->schema().features.size());
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
  if (best < 0) return -1;
  const int32_t n = (size_ - best + devices - 1) / devices;  // contexts of this device
  const auto first = static_cast<int32_t>(preferred() % static_cast<uint32_t>(n));
  for (int32_t k = 0; k < n; ++k) {
    const int32_t index = best + (first + k) % n * devices;
    if (claim(index)) return index;
  }
  return -1;
}

Result<ContextPool::Lease> ContextPool::acquire(const RunControl& control) {
  int32_t index = engines_.size() > 1 ? claim_least_busy() : -1;
  if (index < 0) index = claim_near();
  if (index < 0) {
    DPI_ASSIGN_OR_RETURN(index, wait(control));
  }
  Lease lease(this, index);
  Place& place = places_[index];
  if (place.context == nullptr) {
    auto made = make_context(index);
    if (!made.ok()) {
      place.counters.add_error(made.status().code());
      return std::move(made).status();
    }
    place.context = std::move(made).value();
  }
  return lease;
}

Result<std::unique_ptr<Context>> ContextPool::make_context(int32_t index) {
  try {
    return Context::create(engine_of(index), max_rows_, max_nnz_);
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "out of memory");
  }
}

void ContextPool::release(int32_t index) {
  std::atomic<uint32_t>& word = places_[index].word;
  uint32_t claimed = kClaimed;
  if (word.compare_exchange_strong(claimed, kFree, std::memory_order_release, std::memory_order_relaxed))
    return;  // close() may be through already: nothing of the pool may be touched
  const std::lock_guard<std::mutex> lock(wait_.mutex);
  word.store(wait_.closing || wait_.starving > 0 ? kReserved : kFree, std::memory_order_release);
  if (wait_.closing) {
    wait_.changed.notify_all();  // close() sleeps beside the callers
  } else {
    wait_.changed.notify_one();
  }
}

/// Takes a context that came free, or marks all as wanted. With mutex held, so that no holder of a marked one
/// gives it back before the caller sleeps.
int32_t ContextPool::claim_or_mark() {
  const uint32_t take = wait_.waiting > 1 ? kWanted : kClaimed;  // the others sleep on this word too
  for (int32_t i = 0; i < size_; ++i) {
    std::atomic<uint32_t>& word = places_[i].word;
    uint32_t seen = word.load(std::memory_order_relaxed);
    while (seen != kWanted) {
      const bool takes = seen != kClaimed;
      if (!word.compare_exchange_weak(seen, takes ? take : uint32_t{kWanted}, std::memory_order_acquire,
                                      std::memory_order_relaxed))
        continue;
      if (takes) return i;
      break;
    }
  }
  return -1;
}

namespace {

/// Why a caller waits no longer, kOk when it does.
Code give_up(const RunControl& control, uint64_t now) {
  if (control.cancel != nullptr && __atomic_load_n(control.cancel, __ATOMIC_ACQUIRE) != 0)
    return Code::kCancelled;
  return control.deadline_ns == 0 || now < control.deadline_ns ? Code::kOk : Code::kTimeout;
}

}  // namespace

Status ContextPool::gave_up(Code why) const {
  if (why == Code::kCancelled) return {why, "cancelled while waiting"};
  return {why, "all " + std::to_string(size_) +
                   " contexts were busy until the deadline; option max_contexts allows more"};
}

void ContextPool::note_wait(uint64_t ns) {
  if (ns < kPatienceNs) return;
  ++wait_.slow.count;
  wait_.slow.longest_ns = std::max(wait_.slow.longest_ns, ns);
  wait_.untold.count += 1;
  wait_.untold.longest_ns = std::max(wait_.untold.longest_ns, ns);
}

WaitSums ContextPool::take_slow_waits() {
  const std::lock_guard<std::mutex> lock(wait_.mutex);
  return std::exchange(wait_.untold, {});
}

/// Ends a wait, with or without a context: nobody else may sleep on a wake-up that this caller took along.
void ContextPool::leave(bool starving, bool has_context) {
  --wait_.waiting;
  if (starving) --wait_.starving;
  bool wake_all = wait_.closing;  // close() counts those that wait
  for (int32_t i = 0; i < size_ && !wait_.closing && wait_.starving == 0; ++i) {
    uint32_t reserved = kReserved;
    if (places_[i].word.compare_exchange_strong(reserved, kFree, std::memory_order_acq_rel)) wake_all = true;
  }
  if (wake_all) {
    wait_.changed.notify_all();
  } else if (!has_context) {
    wait_.changed.notify_one();
  }
}

/// Nothing in it may throw between `++waiting` and leave(): close() waits for those that wait.
Result<int32_t> ContextPool::wait(const RunControl& control) {
  std::unique_lock<std::mutex> lock(wait_.mutex);
  if (wait_.closing) {
    count_refused(Code::kClosed);
    return Status(Code::kClosed, "the model is being freed");
  }
  ++wait_.waiting;
  const uint64_t began = monotonic_ns();
  bool starving = false;
  Code failed = Code::kOk;
  int32_t index = -1;
  while ((index = claim_or_mark()) < 0) {
    const uint64_t now = monotonic_ns();
    failed = give_up(control, now);
    if (failed != Code::kOk) break;
    if (!starving && now - began >= kPatienceNs) {
      starving = true;
      ++wait_.starving;
    }
    uint64_t until = now + (control.cancel != nullptr ? kPollNs : starving ? kLongNs : kPatienceNs);
    if (control.deadline_ns != 0) until = std::min(until, control.deadline_ns);
    wait_.changed.wait_until(lock, steady_time(until));
  }
  note_wait(monotonic_ns() - began);
  leave(starving, index >= 0);
  if (index >= 0) return index;
  count_refused(failed);
  return gave_up(failed);
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
  // the words first: whoever comes now must find them taken
  while (!all_retired() || wait_.waiting != 0) wait_.changed.wait(lock);
  for (int32_t i = 0; i < size_; ++i) places_[i].context.reset();
}

void ContextPool::add_counts(CounterSums* sums) {
  {
    const std::lock_guard<std::mutex> lock(wait_.mutex);
    sums->waits += wait_.slow.count;
    sums->longest_wait_ns = std::max(sums->longest_wait_ns, wait_.slow.longest_ns);
  }
  for (int32_t i = 0; i < size_; ++i) {
    places_[i].counters.add_to(sums);
    for (CounterSums::Device& d : sums->on)
      d.calls += d.index == engine_of(i).caps().device_index ? places_[i].counters.calls() : 0;
  }
  for (size_t c = 0; c < CounterSums::kCodes; ++c)
    sums->errors[c] += wait_.refused[c].load(std::memory_order_relaxed);
}

}  // namespace dpi
