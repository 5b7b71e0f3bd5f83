// The optional pool of the cpu backend (option threads=N): splits one op over its rows. The caller takes
// part; there is one job at a time, and a caller who finds the pool busy does its own work alone instead of
// waiting. No OpenMP: a host's settings stay the host's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace dpi::backend {

class ThreadPool {
 public:
  /// `threads` counts the caller: threads - 1 are started. Throws std::system_error when they cannot be.
  explicit ThreadPool(int32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int32_t threads() const { return static_cast<int32_t>(workers_.size()) + 1; }

  using Part = void (*)(void* context, int32_t part);
  /// Runs part(context, 0 .. parts - 1), each once, and returns when all are done. Never allocates; `part`
  /// must not throw.
  void run(int32_t parts, Part part, void* context);

 private:
  void work();
  /// Takes parts of the current job until none is left. Called and returns with the lock held.
  void take_parts(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;  // guards all below but workers_
  std::condition_variable wake_;
  std::condition_variable done_;
  Part part_ = nullptr;
  void* context_ = nullptr;
  int32_t next_ = 0;
  int32_t parts_ = 0;
  int32_t unfinished_ = 0;
  bool busy_ = false;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace dpi::backend
