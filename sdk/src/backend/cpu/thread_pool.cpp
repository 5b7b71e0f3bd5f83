#include "backend/cpu/thread_pool.hpp"

namespace dpi::backend {

ThreadPool::ThreadPool(int32_t threads) {
  for (int32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::take_parts(std::unique_lock<std::mutex>& lock) {
  while (next_ < parts_) {
    const int32_t mine = next_++;
    const Part part = part_;
    void* const context = context_;
    lock.unlock();
    part(context, mine);
    lock.lock();
    if (--unfinished_ == 0) done_.notify_one();
  }
}

void ThreadPool::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    take_parts(lock);
    wake_.wait(lock, [this] { return stop_ || next_ < parts_; });
  }
}

void ThreadPool::run(int32_t parts, Part part, void* context) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!busy_) {
      busy_ = true;
      part_ = part;
      context_ = context;
      next_ = 0;
      parts_ = unfinished_ = parts;
      wake_.notify_all();
      take_parts(lock);
      done_.wait(lock, [this] { return unfinished_ == 0; });
      busy_ = false;
      return;
    }
  }
  for (int32_t i = 0; i < parts; ++i) part(context, i);
}

}  // namespace dpi::backend
