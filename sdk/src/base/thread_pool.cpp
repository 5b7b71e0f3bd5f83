#include "base/thread_pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "base/block_signals.hpp"
#include "base/clock.hpp"
#include "base/float_env.hpp"

namespace dpi {

namespace {

constexpr int kLooksPerClock = 32;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks until `there` or for ns; whether it was there.
template <class There>
bool spin(int64_t ns, There&& there) {
  if (ns <= 0) return there();
  const uint64_t end = monotonic_ns() + static_cast<uint64_t>(ns);
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (there()) return true;
      pause();
    }
  } while (monotonic_ns() < end);
  return false;
}

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

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    show_work();
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::spin_for(int64_t ns) {
  int64_t known = spin_ns();
  while (ns > known && !spin_ns_.compare_exchange_weak(known, ns, std::memory_order_relaxed)) {
  }
}

Status ThreadPool::grow(int32_t threads) {
  const int32_t most = limit();
  const auto wanted = static_cast<size_t>(std::max(1, most > 0 ? std::min(threads, most) : threads)) - 1;
  const BlockSignals blocked;
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    while (workers_.size() < wanted) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error& e) {
    return Status(Code::kOutOfMemory, "thread " + std::to_string(workers_.size() + 1) + " of " +
                                          std::to_string(wanted) + " cannot be started: " + e.what())
        .native(e.code().value());
  }
  return {};
}

void ThreadPool::run_share(Job& job, std::unique_lock<std::mutex>& lock) {
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
  lock.unlock();
  job.share(job.context, mine);
  lock.lock();
  if (job.unfinished.fetch_sub(1, std::memory_order_relaxed) == 1)
    job.done.notify_one();  // with the lock: the job goes when its caller has it
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
    spin(spin_ns(), [this] { return has_work_.load(std::memory_order_relaxed); });
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
  for (int32_t i = std::min(shares - 1, sleepers_); i > 0; --i) wake_.notify_one();
  while (job.taken < shares) run_share(job, lock);
  const auto ended = [&] { return job.unfinished.load(std::memory_order_relaxed) == 0; };
  if (ended()) return;
  lock.unlock();
  spin(spin_ns(), ended);
  lock.lock();  // also then: the last one may still have it
  job.done.wait(lock, ended);
}

}  // namespace dpi
