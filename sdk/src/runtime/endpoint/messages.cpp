// Messages about an endpoint, in the order of its events: whoever switches notes an event under state_mutex_,
// and one thread at a time writes the messages, without it.
#include <chrono>
#include <new>
#include <utility>

#include "runtime/endpoint/endpoint.hpp"

namespace dpi {

namespace {

std::string text_of(const EndpointEvent& e) {
  const std::string number = std::to_string(e.number);
  switch (e.kind) {
    case EndpointEvent::Kind::kLoad:
      return "version " + number + " serves, from " + e.path;
    case EndpointEvent::Kind::kRollback:
      return "rolled back from version " + std::to_string(e.from) + " to " + number;
    case EndpointEvent::Kind::kFailedLoad:
      break;
  }
  const bool named = e.status.message().starts_with(e.path);
  return "a load failed: " + (named ? std::string() : e.path + ": ") + e.status.message();
}

}  // namespace

int64_t wall_ms() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch())
      .count();
}

/// With state_mutex_ held. Without memory for it an event is not noted and not told: it has happened all the
/// same.
void Endpoint::note_event(EndpointEvent::Kind kind, const std::string& path, uint64_t number, uint64_t from,
                          double seconds, const Status& why) noexcept {
  try {
    EndpointEvent event{kind, why, path, number, from, wall_ms(), seconds};
    const bool loaded = kind == EndpointEvent::Kind::kLoad;
    messages_.push_back({loaded ? LogLevel::kInfo : LogLevel::kWarn, text_of(event)});
    if (kind != EndpointEvent::Kind::kRollback) last_ = event;
    history_.add(std::move(event));
  } catch (const std::bad_alloc&) {
    return;
  }
}

/// By the recorder's thread. The endpoint's writes the message: a callback may set the path anew, which waits
/// for the recorder's.
void Endpoint::note_recording(const Status& failed) noexcept {
  try {
    const std::lock_guard<std::mutex> lock(state_mutex_);
    messages_.push_back({LogLevel::kWarn, "recording fails, requests are dropped: " + failed.message()});
    recording_fails_ = true;
    changed_.notify_all();
  } catch (const std::bad_alloc&) {
    return;  // the status has it
  }
}

/// A thread that finds another one at it leaves its messages to that one. So does a log callback that rolls
/// back.
void Endpoint::write_messages() noexcept {
  std::unique_lock<std::mutex> lock(state_mutex_);
  if (writing_messages_) return;
  writing_messages_ = true;
  while (!messages_.empty()) {
    const Message next = std::move(messages_.front());
    messages_.pop_front();
    lock.unlock();
    tell(next.level, [&] { return next.text; });
    lock.lock();
  }
  writing_messages_ = false;
}

}  // namespace dpi
