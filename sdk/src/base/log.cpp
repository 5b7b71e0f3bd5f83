#include "base/log.hpp"

#include <algorithm>
#include <cstring>

#include "base/printable.hpp"
#include "base/static_tls.hpp"

namespace dpi {

namespace {

/// Callbacks that this thread is inside of.
DPI_STATIC_TLS thread_local int32_t t_inside = 0;

/// At most `most` bytes, and no half of a UTF-8 character.
void cut_text(std::string* text, size_t most) {
  if (text->size() <= most) return;
  while (most > 0 && (static_cast<unsigned char>((*text)[most]) & 0xC0) == 0x80) --most;
  text->resize(most);
}

}  // namespace

void LogSink::set_callback(LogCallback callback, void* user, LogLevel min_level) {
  std::shared_ptr<Target> target;
  if (callback != nullptr) {
    target = std::make_shared<Target>();
    target->callback = callback;
    target->user = user;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    target_.swap(target);
    min_level_.store(min_level, std::memory_order_relaxed);
  }
  if (target == nullptr || t_inside > 0) return;
  for (int32_t n = 0; (n = target->running.load(std::memory_order_acquire)) > 0;)
    target->running.wait(n, std::memory_order_acquire);
}

std::shared_ptr<LogSink::Target> LogSink::keep(LogLevel level, const char* component, std::string* message) {
  const std::string prefix = std::string(component) + ": ";
  cut_text(message, kMostText - std::min(kMostText, prefix.size()));
  Entry entry{level, prefix + *message};
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!wants(level)) return nullptr;
  if (ring_.size() == kKept) {
    ring_.pop_front();
    ++lost_;
  }
  ring_.push_back(std::move(entry));
  if (target_ == nullptr || t_inside > 0) return nullptr;
  target_->running.fetch_add(1, std::memory_order_relaxed);
  return target_;
}

void LogSink::write(LogLevel level, const char* component, const std::string& message) noexcept {
  if (!wants(level)) return;
  std::shared_ptr<Target> target;
  std::string text;
  try {
    text = printable(message);
    target = keep(level, component, &text);
  } catch (...) {
    return;  // no memory for a message: what it tells of goes on
  }
  if (target == nullptr) return;
  ++t_inside;
  target->callback(target->user, static_cast<int32_t>(level), component, text.c_str());
  --t_inside;
  if (target->running.fetch_sub(1, std::memory_order_acq_rel) == 1) target->running.notify_all();
}

bool LogSink::poll(bool take, std::string* text, LogLevel* level) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lost_ > 0) {
    *text = "log: " + std::to_string(lost_) + " messages before this one were lost; poll more often";
    *level = LogLevel::kWarn;
    if (take) lost_ = 0;
    return true;
  }
  if (ring_.empty()) return false;
  *text = ring_.front().text;
  *level = ring_.front().level;
  if (take) ring_.pop_front();
  return true;
}

void LogSink::after_fork(bool child) {
  if (child && target_ != nullptr) target_->running.store(0, std::memory_order_relaxed);
  mutex_.unlock();
}

}  // namespace dpi
