// The last loads, refusals and rollbacks of an endpoint, oldest first.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "base/status.hpp"

namespace dpi {

/// Now, in milliseconds of the epoch.
int64_t wall_ms();

struct EndpointEvent {
  enum class Kind { kLoad, kFailedLoad, kRollback };
  Kind kind = Kind::kLoad;
  Status status;  // why a load failed
  std::string path;
  uint64_t number = 0;  // the version that serves from then on, or would have
  uint64_t from = 0;    // of a rollback: the version that served before
  int64_t at_ms = 0;    // of the epoch
  double seconds = 0;   // a load's, up to the switch
  uint64_t times = 1;   // that the same file failed for the same reason, one after the other
};

class EndpointHistory {
 public:
  static constexpr size_t kMost = 32;

  /// Forgets the oldest beyond kMost. A failure that repeats the last event counts there.
  void add(EndpointEvent event) {
    if (!events_.empty() && repeats(events_.back(), event)) {
      event.times = events_.back().times + 1;
      events_.back() = std::move(event);
      return;
    }
    events_.push_back(std::move(event));
    if (events_.size() > kMost) events_.pop_front();
  }
  const std::deque<EndpointEvent>& events() const { return events_; }

 private:
  static bool repeats(const EndpointEvent& last, const EndpointEvent& next) {
    return next.kind == EndpointEvent::Kind::kFailedLoad && last.kind == next.kind &&
           last.path == next.path && last.number == next.number && last.status.code() == next.status.code() &&
           last.status.message() == next.status.message();
  }

  std::deque<EndpointEvent> events_;
};

}  // namespace dpi
