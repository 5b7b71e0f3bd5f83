#include "base/thread_pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "base/block_signals.hpp"
#include "base/clock.hpp"
#include "base/float_env.hpp"
#include "base/host_share.hpp"
#include "base/spin.hpp"

namespace dpi {

namespace {

/// The cost of waking a sleeping caller, for both sides.
constexpr int64_t kEndNs = 20'000;

constexpr uint64_t kMost = 0xffff;

/// Number of the stretch of time that is now.
uint64_t stretch() { return monotonic_ns() / ThreadPool::kMemoryNs & 0xffffffff; }

}  // namespace

struct ThreadPool::Job {
  Share share = nullptr;
  void* context = nullptr;
  int32_t shares = 0;
  int32_t taken = 0;
  std::atomic<int32_t> unfinished{0};  // changed with the lock
  Job* next = nullptr;
  std::condition_variable done;
};

ThreadPool::~ThreadPool() { end_threads(); }

void ThreadPool::end_threads() {
  std::vector<std::thread> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended.swap(workers_);
    stop_ = true;
    show_work();
  }
  wake_.notify_all();
  for (std::thread& t : ended) t.join();
  const std::lock_guard<std::mutex> lock(mutex_);
  stop_ = false;
  show_work();
}

ThreadPool::User::User(ThreadPool& pool) : pool_(pool), generation_(pool.generation_) {
  const std::lock_guard<std::mutex> lock(pool_.users_mutex_);
  ++pool_.users_;
}

ThreadPool::User::~User() {
  const std::lock_guard<std::mutex> lock(pool_.users_mutex_);
  if (pool_.generation_ == generation_ && --pool_.users_ == 0) pool_.end_threads();
}

void ThreadPool::spin_for(int64_t ns) {
  int64_t known = spin_ns_.load(std::memory_order_relaxed);
  while (ns > known && !spin_ns_.compare_exchange_weak(known, ns, std::memory_order_relaxed)) {
  }
}

void ThreadPool::set_as(const ThreadPool& other) {
  generation_ = other.generation_ + 1;
  set_limit(other.limit());
  limit_spin(other.most_spin_ns_.load(std::memory_order_relaxed));
  spin_for(other.spin_ns_.load(std::memory_order_relaxed));
}

Status ThreadPool::grow(int32_t threads) {
  const int32_t most = limit();
  const auto wanted = static_cast<size_t>(std::max(1, most > 0 ? std::min(threads, most) : threads)) - 1;
  const BlockSignals blocked;
  const std::lock_guard<std::mutex> lock(mutex_);
  seen_processors_.store(usable_processors(), std::memory_order_relaxed);
  try {
    while (workers_.size() < wanted) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error& e) {
    return Status(Code::kOutOfMemory, "thread " + std::to_string(workers_.size() + 1) + " of " +
                                          std::to_string(wanted) + " cannot be started: " + e.what())
        .native(e.code().value());
  }
  return {};
}

int32_t ThreadPool::processors() const {
  const int32_t given = given_processors_.load(std::memory_order_relaxed);
  return given > 0 ? given : seen_processors_.load(std::memory_order_relaxed);
}

/// The most callers side by side of this stretch of time and of the one before: number of the stretch << 32 |
/// most before << 16 | most now. Of two who write at once one may get lost; both come again.
void ThreadPool::note_callers(int32_t n) {
  const uint64_t old = peaks_.load(std::memory_order_relaxed), now = stretch();
  uint64_t before = old >> 16 & kMost, most = old & kMost;
  if (old >> 32 != now) {
    before = (old >> 32) + 1 == now ? most : 0;
    most = 0;
  }
  most = std::max(most, std::min(static_cast<uint64_t>(n), kMost));
  const uint64_t noted = now << 32 | before << 16 | most;
  if (noted != old) peaks_.store(noted, std::memory_order_relaxed);
}

int32_t ThreadPool::recent_callers() const {
  const uint64_t old = peaks_.load(std::memory_order_relaxed), passed = stretch() - (old >> 32);
  const uint64_t most = std::max(passed == 0 ? old >> 16 & kMost : 0, passed <= 1 ? old & kMost : 0);
  return std::max(static_cast<int32_t>(most), callers_.load(std::memory_order_relaxed));
}

ThreadPool::Caller::Caller(ThreadPool& pool) : pool_(pool) {
  const int32_t others = pool.callers_.fetch_add(1, std::memory_order_relaxed);
  if (others > 0) pool.note_callers(others + 1);
}

int32_t ThreadPool::Caller::threads(int32_t wanted) const {
  return std::clamp(pool_.processors() - pool_.recent_callers() + 1, 1, std::max(wanted, 1));
}

bool ThreadPool::awake() {
  const int64_t looks = spin_ns();
  if (looks <= 0) return false;
  const uint64_t now = monotonic_ns(), before = asked_ns_.exchange(now, std::memory_order_relaxed);
  return lookers_.load(std::memory_order_relaxed) > 0 || now - before < static_cast<uint64_t>(looks);
}

int32_t ThreadPool::take_share(Job& job) {
  const int32_t mine = job.taken++;
  if (job.taken == job.shares) {  // nothing left for others
    Job** link = &first_;
    Job* before = nullptr;
    while (*link != &job) {
      before = *link;
      link = &before->next;
    }
    *link = job.next;
    if (last_ == &job) last_ = before;
    show_work();
  }
  return mine;
}

void ThreadPool::end_share(Job& job) {
  if (job.unfinished.fetch_sub(1, std::memory_order_relaxed) == 1)
    job.done.notify_one();  // with the lock: the job goes when its caller has it
}

void ThreadPool::run_share(Job& job, std::unique_lock<std::mutex>& lock) {
  const int32_t mine = take_share(job);
  lock.unlock();
  job.share(job.context, mine);
  lock.lock();
  end_share(job);
}

void ThreadPool::work() {
  pthread_setname_np(pthread_self(), "dpi-pool");
  const FloatEnvironment standard;  // a thread begins with its starter's
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (stop_) return;
    if (first_ != nullptr) {
      run_share(*first_, lock);
      continue;
    }
    lock.unlock();
    const int32_t lookers = lookers_.fetch_add(1, std::memory_order_relaxed) + 1;
    spin(spin_ns(), [&] { return has_work_.load(std::memory_order_relaxed) || crowded(lookers); });
    lookers_.fetch_sub(1, std::memory_order_relaxed);
    lock.lock();
    ++sleepers_;
    wake_.wait(lock, [this] { return stop_ || first_ != nullptr; });
    --sleepers_;
  }
}

void ThreadPool::run(int32_t shares, Share share, void* context) {
  if (shares < 1) return;
  if (shares == 1) return share(context, 0);
  Job job;
  job.share = share;
  job.context = context;
  job.shares = shares;
  job.unfinished.store(shares, std::memory_order_relaxed);
  std::unique_lock<std::mutex> lock(mutex_);
  (last_ != nullptr ? last_->next : first_) = &job;
  last_ = &job;
  show_work();
  const int32_t mine = take_share(job), lookers = lookers_.load(std::memory_order_relaxed);
  const int32_t wakes = std::min(std::max(shares - 1 - lookers, 0), sleepers_);
  lock.unlock();  // those who wake want it
  for (int32_t i = 0; i < wakes; ++i) wake_.notify_one();
  share(context, mine);
  lock.lock();
  end_share(job);
  while (job.taken < shares) run_share(job, lock);
  const auto ended = [&] { return job.unfinished.load(std::memory_order_relaxed) == 0; };
  if (ended()) return;
  lock.unlock();
  spin(std::max(spin_ns(), kEndNs), ended);
  lock.lock();  // also then: the last one may still have it
  job.done.wait(lock, ended);
}

}  // namespace dpi
