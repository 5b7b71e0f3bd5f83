// The worker threads that the models of an environment share: splits work over rows (option threads). A
// caller takes part in its own job; jobs of several callers run side by side, and one who finds every worker
// busy does its work alone instead of waiting. No OpenMP: a host's settings stay the host's.
#pragma once

#include <algorithm>
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

  /// How long threads look for their next share before they sleep; the longest of all that was asked for,
  /// and no longer than the host lets them. 0 = not at all: a sleeper costs its waker a system call and
  /// itself a scheduler's delay, one who looks costs a processor, so nobody looks while callers have them
  /// all. A caller looks for the end of the others' shares for 20 us at least: it has a processor.
  void spin_for(int64_t ns);
  int64_t spin_ns() const {
    return std::min(spin_ns_.load(std::memory_order_relaxed), most_spin_ns_.load(std::memory_order_relaxed));
  }
  /// The host's upper limit on spinning. Takes effect at once, for running threads too.
  void limit_spin(int64_t ns) { most_spin_ns_.store(ns, std::memory_order_relaxed); }
  static constexpr int64_t kMostSpinNs = 10'000'000;

  /// Copies the settings of limits and models from a pool that this one replaces.
  void set_as(const ThreadPool& other);

  /// Processors for callers and threads together. 0 = those that the thread which last called grow() may run
  /// on, and so the threads it started.
  void set_processors(int32_t n) { given_processors_.store(n, std::memory_order_relaxed); }
  int32_t processors() const;

  /// A caller that may share its work out, for as long as it works. Callers who have the processors among
  /// them each work alone: one thread more than processors, and somebody waits for a scheduler's slice. Calls
  /// of callers who take turns overlap at some moments only, so the most that worked side by side within the
  /// last kMemoryNs count.
  class Caller {
   public:
    explicit Caller(ThreadPool& pool);
    ~Caller() { pool_.callers_.fetch_sub(1, std::memory_order_relaxed); }
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

    /// The number of threads, at most `wanted` and this one included, that have a processor left; at least 1.
    int32_t threads(int32_t wanted) const;

   private:
    ThreadPool& pool_;
  };
  static constexpr int64_t kMemoryNs = 4 << 20;
  int32_t recent_callers() const;

  /// True if callers and `workers` threads outnumber the processors.
  bool crowded(int32_t workers) const {
    return callers_.load(std::memory_order_relaxed) + workers > processors();
  }

  /// True if a caller finds a busy-waiting thread now, or would if its previous call here had woken one: that
  /// was no longer ago than threads busy-wait.
  bool awake();

  /// Held by a model while it lives. The end of the last one ends the threads, so that a host which has freed
  /// its models has none of ours; jobs that still come are done by their callers alone.
  class User {
   public:
    explicit User(ThreadPool& pool);
    ~User();
    User(const User&) = delete;
    User& operator=(const User&) = delete;

   private:
    ThreadPool& pool_;
    const uint64_t generation_;  // of the pool: a forked child's begins without users
  };

  /// Starts what is missing for jobs of `threads` threads, the caller counted. Workers are named dpi-pool and
  /// block every signal but those of faults, so a host's handlers run on the host's threads.
  Status grow(int32_t threads);

  using Share = void (*)(void* context, int32_t share);
  /// Runs share(context, 0 .. shares - 1), each once, share 0 on the caller's thread, and returns when all
  /// are done. Never allocates; `share` must not throw.
  void run(int32_t shares, Share share, void* context);

 private:
  struct Job;  // on its caller's stack
  void work();
  void end_threads();
  /// The next share of a job that has one left, with the lock held.
  int32_t take_share(Job& job);
  static void end_share(Job& job);
  /// Runs the next share. Called and returns with the lock held.
  void run_share(Job& job, std::unique_lock<std::mutex>& lock);
  void note_callers(int32_t n);
  void show_work() { has_work_.store(first_ != nullptr || stop_, std::memory_order_relaxed); }

  std::atomic<int32_t> limit_{0};
  std::atomic<int64_t> spin_ns_{0}, most_spin_ns_{kMostSpinNs};
  std::atomic<int32_t> given_processors_{0}, seen_processors_{1};
  alignas(64) std::atomic<int32_t> callers_{0};
  std::atomic<int32_t> lookers_{0};
  std::atomic<uint64_t> asked_ns_{0};              // by awake()
  std::atomic<uint64_t> peaks_{0};                 // see note_callers
  alignas(64) std::atomic<bool> has_work_{false};  // for those who look without the lock
  std::mutex users_mutex_;                         // of the next two; before mutex_
  int64_t users_ = 0;
  uint64_t generation_ = 0;
  std::mutex mutex_;  // of the rest
  std::condition_variable wake_;
  Job* first_ = nullptr;  // jobs with shares that nobody took yet, oldest first
  Job* last_ = nullptr;
  int32_t sleepers_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace dpi
