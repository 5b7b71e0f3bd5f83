// The worker threads that the models of an environment share: splits work over rows (option threads). A
// caller takes part in its own job; jobs of several callers run side by side, and one who finds every worker
// busy does its work alone instead of waiting. No OpenMP: a host's settings stay the host's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.hpp"

namespace dpi {

class ThreadPool {
 public:
  ThreadPool() = default;
  /// No job may be running.
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Threads that one job may use at most, the caller counted; 0 = whatever models ask for. Threads that were
  /// started before stay.
  void set_limit(int32_t threads) { limit_.store(threads, std::memory_order_relaxed); }
  int32_t limit() const { return limit_.load(std::memory_order_relaxed); }

  /// How long threads look for their next share, or a caller for the end of the others', before they sleep;
  /// the longest of all that was asked for. 0 = not at all: a sleeper costs its waker a system call and
  /// itself a scheduler's delay, one who looks costs a processor.
  void spin_for(int64_t ns);
  int64_t spin_ns() const { return spin_ns_.load(std::memory_order_relaxed); }

  /// Starts what is missing for jobs of `threads` threads, the caller counted. Workers are named dpi-pool and
  /// block every signal but those of faults, so a host's handlers run on the host's threads.
  Status grow(int32_t threads);

  using Share = void (*)(void* context, int32_t share);
  /// Runs share(context, 0 .. shares - 1), each once, and returns when all are done; share 0 on the calling
  /// thread. Never allocates; `share` must not throw.
  void run(int32_t shares, Share share, void* context);

 private:
  struct Job;  // on its caller's stack
  void work();
  /// Runs the next share of a job that has one left. Called and returns with the lock held.
  void run_share(Job& job, std::unique_lock<std::mutex>& lock);
  void show_work() { has_work_.store(first_ != nullptr || stop_, std::memory_order_relaxed); }

  std::atomic<int32_t> limit_{0};
  std::atomic<int64_t> spin_ns_{0};
  alignas(64) std::atomic<bool> has_work_{false};  // for those who look without the lock
  std::mutex mutex_;                               // of the rest
  std::condition_variable wake_;
  Job* first_ = nullptr;  // jobs with shares that nobody took yet, oldest first
  Job* last_ = nullptr;
  int32_t sleepers_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace dpi
