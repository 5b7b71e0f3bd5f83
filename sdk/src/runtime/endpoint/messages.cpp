// What happened to an endpoint, told in the order in which it happened: whoever switches notes it under
// state_mutex_, and one thread at a time writes the messages, without it.
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

/// With state_mutex_ held. Without memory for its text a message is not told: what it tells of has happened.
void Endpoint::note_event(EndpointEvent event) noexcept {
  try {
    const bool loaded = event.kind == EndpointEvent::Kind::kLoad;
    messages_.push_back({loaded ? LogLevel::kInfo : LogLevel::kWarn, text_of(event)});
    if (event.kind != EndpointEvent::Kind::kRollback) last_ = event;
    history_.add(std::move(event));
  } catch (const std::bad_alloc&) {
    return;
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
