#include "base/environment.hpp"

#include <pthread.h>

#include <charconv>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "base/at_load.hpp"

namespace dpi {

namespace {

constexpr int32_t kMostThreads = 256;

/// All that live, so that fork() finds none of them half changed. Never destroyed.
struct Living {
  std::mutex mutex;
  std::vector<Environment*> all;
};

Living& living() {
  static Living* const kLiving = new Living;
  return *kLiving;
}

void lock_all() {
  living().mutex.lock();
  for (Environment* e : living().all) e->before_fork();
}

void unlock_all(bool child) {
  for (Environment* e : living().all) e->after_fork(child);
  living().mutex.unlock();
}

}  // namespace

Environment::Environment() {
  static const int kRegistered =
      pthread_atfork(lock_all, [] { unlock_all(false); }, [] { unlock_all(true); });
  static_cast<void>(kRegistered);
  const std::lock_guard<std::mutex> lock(living().mutex);
  living().all.push_back(this);  // where this throws the pool, which has nothing yet, goes without its end
}

Environment::~Environment() {
  {
    const std::lock_guard<std::mutex> lock(living().mutex);
    std::erase(living().all, this);
  }
  pool_->~ThreadPool();
}

Status Environment::set(std::string_view key, std::string_view value) {
  const bool threads = key == "threads";
  if (!threads && key != "spin_us")
    return {Code::kNotFound,
            "unknown key '" + std::string(key) + "' of an environment; known: threads, spin_us"};
  const int32_t most = threads ? kMostThreads : static_cast<int32_t>(ThreadPool::kMostSpinNs / 1000);
  int32_t n = 0;
  const auto [end, fault] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (fault != std::errc() || end != value.data() + value.size() || n < 0 || n > most)
    return invalid_argument(std::string(key) + " of an environment is '" + std::string(value) +
                            "', expected 0 .. " + std::to_string(most));
  if (threads) {
    pool().set_limit(n);
  } else {
    pool().limit_spin(int64_t{1000} * n);
  }
  return {};
}

void Environment::set_memory(const MemoryHooks& hooks) {
  const std::lock_guard<std::mutex> lock(memory_mutex_);
  memory_ = hooks;
}

MemoryHooks Environment::memory() const {
  const std::lock_guard<std::mutex> lock(memory_mutex_);
  return memory_;
}

bool Environment::claim_name(const std::string& name) {
  const std::lock_guard<std::mutex> lock(memory_mutex_);
  return names_.insert(name).second;
}

void Environment::give_name_back(const std::string& name) {
  const std::lock_guard<std::mutex> lock(memory_mutex_);
  names_.erase(name);
}

void Environment::before_fork() {
  parts_.before_fork();
  memory_mutex_.lock();
  observed_.before_fork();
  log_.before_fork();
}

void Environment::after_fork(bool child) {
  log_.after_fork(child);
  observed_.after_fork(child);
  if (child) names_.clear();  // their endpoints are the parent's
  memory_mutex_.unlock();
  parts_.after_fork(child);
  if (!child) return;
  // The child has none of the threads, and locks of theirs may be held: that pool is not touched again.
  // A new one takes its place without its end, and without memory: fork() cannot fail for want of it.
  ThreadPool settings;
  settings.set_as(*pool_);
  pool_ = new (pool_room_) ThreadPool;
  pool_->set_as(settings);
}

std::shared_ptr<Environment> Environment::create() { return std::shared_ptr<Environment>(new Environment()); }

const std::shared_ptr<Environment>& Environment::process() {
  static const auto* const kProcess = new std::shared_ptr<Environment>(create());
  return *kProcess;
}

namespace {
const AtLoad g_process([] { static_cast<void>(Environment::process()); });
}  // namespace

}  // namespace dpi
