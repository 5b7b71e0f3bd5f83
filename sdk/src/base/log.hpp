// Messages to the host program: a callback, and a ring of the last ones for languages that poll. An
// environment has one. Load and management paths only, never predict; nothing is printed.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

namespace dpi {

enum class LogLevel : int32_t { kDebug = 0, kInfo = 1, kWarn = 2, kError = 3, kOff = 4 };

using LogCallback = void (*)(void* user, int32_t level, const char* component, const char* message);

class LogSink {
 public:
  static constexpr size_t kKept = 256;       // messages in the ring
  static constexpr size_t kMostText = 4095;  // bytes of "component: message"; longer ones are cut

  /// Messages below min_level are dropped. Returns once no other thread is inside the previous callback, so
  /// that its `user` may go; called from a callback (of any sink) it does not wait.
  void set_callback(LogCallback callback, void* user, LogLevel min_level);

  /// True if a message of this level is logged at all. Ask before building an expensive text.
  bool wants(LogLevel level) const { return level >= min_level_.load(std::memory_order_relaxed); }

  /// Keeps the message and hands it to the callback, without a lock. A message that a callback's own thread
  /// causes is kept only, so a callback that loads models does not call itself.
  void write(LogLevel level, const char* component, const std::string& message) noexcept;

  /// The oldest kept message as "component: message"; `take` removes it. False when there is none. Where the
  /// ring ran over, a message that says so comes first.
  bool poll(bool take, std::string* text, LogLevel* level);

  /// Around fork(): nothing is half written in the child, and callbacks of threads it has not are forgotten.
  void before_fork() { mutex_.lock(); }
  void after_fork(bool child);

 private:
  struct Target {
    LogCallback callback;
    void* user;
    std::atomic<int32_t> running{0};
  };
  struct Entry {
    LogLevel level;
    std::string text;
  };

  std::shared_ptr<Target> keep(LogLevel level, const char* component, std::string* message);

  std::atomic<LogLevel> min_level_{LogLevel::kWarn};
  std::mutex mutex_;  // of the rest; never held while a callback runs
  std::shared_ptr<Target> target_;
  std::deque<Entry> ring_;
  uint64_t lost_ = 0;  // since the last poll
};

}  // namespace dpi
