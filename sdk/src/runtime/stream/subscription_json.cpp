// The status of a subscription, as JSON.
#include <chrono>

#include "base/json_text.hpp"
#include "runtime/stream/subscription.hpp"

namespace dpi::stream {

namespace {

double seconds_since(int64_t ms) {
  using std::chrono::system_clock;
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch()).count();
  return now > ms ? static_cast<double>(now - ms) * 1e-3 : 0.0;
}

void write_failure(JsonWriter* w, int32_t code, const std::string& text) {
  w->field("code", code);
  w->field("error", text);
}

}  // namespace

std::string Subscription::status_json() const {
  dpi_stream_state state{};
  api_.read_state(handle_.get(), &state);
  const std::lock_guard<std::mutex> lock(mutex_);
  const Seen& s = seen_;
  JsonWriter w;
  w.begin_object();
  w.field("source", options_.url.place());
  w.field("group", options_.url.group);
  w.field("state", s.state);
  write_failure(&w, static_cast<int32_t>(s.error.code()), s.error.message());
  if (s.waits_for > 0) w.field("waits_for", s.waits_for);
  if (s.next_offset >= 0) w.field("offset", s.next_offset);
  if (state.committed >= 0) w.field("committed", state.committed);
  if (state.end >= 0) w.field("end", state.end);
  if (s.next_offset >= 0 && state.end >= 0) {
    const int64_t lag = state.end > s.next_offset ? state.end - s.next_offset : 0;
    w.field("lag_messages", lag);
    if (lag == 0 || s.oldest_ms >= 0) w.field("lag_seconds", lag == 0 ? 0.0 : seconds_since(s.oldest_ms));
  }
  if (s.served_ms >= 0) w.field("staleness_seconds", seconds_since(s.served_ms));
  w.field("versions_behind", s.versions_behind);
  w.field("applied", s.applied);
  w.field("duplicates", s.duplicates);
  w.field("skipped", s.skipped);
  w.field("passed_over", s.passed_over);
  w.field("removed", s.removed);
  if (s.gap.has_value()) {
    w.begin_object("gap");
    w.field("offset", s.gap->offset);
    w.field("messages", s.gap->messages);
    w.field("error", s.gap->why);
    w.end_object();
  }
  if (s.skipped > 0) {
    w.begin_object("last_skipped");
    w.field("offset", s.skipped_offset);
    write_failure(&w, static_cast<int32_t>(s.skipped_why.code()), s.skipped_why.message());
    w.end_object();
  }
  w.begin_object("client");
  write_failure(&w, state.code, state.error.message);
  w.end_object();
  w.end_object();
  return w.take();
}

}  // namespace dpi::stream
