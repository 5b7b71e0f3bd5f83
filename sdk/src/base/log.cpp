#include "base/log.hpp"

#include <deque>
#include <mutex>

namespace dpi {

namespace {

constexpr size_t kKept = 256;

struct Entry {
  LogLevel level;
  std::string text;
};

struct LogState {
  std::mutex mutex;
  LogCallback callback = nullptr;
  void* user = nullptr;
  LogLevel min_level = LogLevel::kWarn;
  std::deque<Entry> ring;
};

LogState& state() {
  static LogState s;
  return s;
}

}  // namespace

void set_log_callback(LogCallback callback, void* user, LogLevel min_level) {
  LogState& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.callback = callback;
  s.user = user;
  s.min_level = min_level;
}

void log_message(LogLevel level, const char* component, const std::string& message) {
  LogState& s = state();
  LogCallback callback = nullptr;
  void* user = nullptr;
  {
    const std::lock_guard<std::mutex> lock(s.mutex);
    if (level < s.min_level) return;
    if (s.ring.size() == kKept) s.ring.pop_front();
    s.ring.push_back({level, std::string(component) + ": " + message});
    callback = s.callback;
    user = s.user;
  }
  if (callback != nullptr) callback(user, static_cast<int32_t>(level), component, message.c_str());
}

bool poll_log(std::string* text, LogLevel* level) {
  LogState& s = state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (s.ring.empty()) return false;
  *text = std::move(s.ring.front().text);
  *level = s.ring.front().level;
  s.ring.pop_front();
  return true;
}

}  // namespace dpi
