#include "base/thread_pool.hpp"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "base/block_signals.hpp"
#include "base/float_env.hpp"

namespace dpi {

struct ThreadPool::Job {
  Share share = nullptr;
  void* context = nullptr;
  int32_t shares = 0;
  int32_t taken = 0;
  int32_t unfinished = 0;
  Job* next = nullptr;
  std::condition_variable done;
};

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
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
  }
  lock.unlock();
  job.share(job.context, mine);
  lock.lock();
  if (--job.unfinished == 0) job.done.notify_one();  // with the lock: the job goes when its caller wakes
}

void ThreadPool::work() {
  pthread_setname_np(pthread_self(), "dpi-pool");
  const FloatEnvironment standard;  // a thread begins with its starter's
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || first_ != nullptr; });
    if (stop_) return;
    run_share(*first_, lock);
  }
}

void ThreadPool::run(int32_t shares, Share share, void* context) {
  if (shares < 1) return;
  if (shares == 1) return share(context, 0);
  Job job;
  job.share = share;
  job.context = context;
  job.shares = shares;
  job.unfinished = shares;
  std::unique_lock<std::mutex> lock(mutex_);
  (last_ != nullptr ? last_->next : first_) = &job;
  last_ = &job;
  for (int32_t i = 1; i < shares; ++i) wake_.notify_one();
  while (job.taken < shares) run_share(job, lock);
  job.done.wait(lock, [&] { return job.unfinished == 0; });
}

}  // namespace dpi
