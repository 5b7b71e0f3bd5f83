// What an endpoint tells about itself, as JSON.

#include "base/clock.hpp"
#include "base/json_text.hpp"
#include "runtime/describe/by_code.hpp"
#include "runtime/endpoint/endpoint.hpp"

namespace dpi {

namespace {

std::string hex(uint64_t v) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 16; i-- > 0; v >>= 4) text[i] = kDigits[v & 15];
  return text;
}

void write_version(JsonWriter* w, const Version& v) {
  w->field("version", v.number);
  w->field("digest", hex(v.model->content_digest()));
  w->field("path", v.path);
  w->field("since_ms", v.since_ms);
  w->field("bytes", v.bytes);
}

void write_serving(JsonWriter* w, const Version* v) {
  if (v == nullptr) return w->field("version", 0);
  write_version(w, *v);
  const uint64_t unhashed = v->origin->leaves->unmade_bytes();
  if (unhashed > 0) w->field("unhashed_bytes", unhashed);
}

const char* name_of(EndpointEvent::Kind kind) {
  switch (kind) {
    case EndpointEvent::Kind::kLoad:
      return "load";
    case EndpointEvent::Kind::kFailedLoad:
      return "failed_load";
    case EndpointEvent::Kind::kRollback:
      return "rollback";
  }
  return "";
}

void write_failure(JsonWriter* w, const Status& status) {
  w->field("code", static_cast<int32_t>(status.code()));
  w->field("error", status.message());
}

void write_history(JsonWriter* w, const EndpointHistory& history) {
  w->begin_list("history");
  for (const EndpointEvent& e : history.events()) {
    w->begin_object();
    w->field("event", name_of(e.kind));
    w->field("path", e.path);
    w->field("version", e.number);
    if (e.kind == EndpointEvent::Kind::kRollback) w->field("from", e.from);
    w->field("at_ms", e.at_ms);
    w->field("seconds", e.seconds);
    w->field("times", e.times);
    write_failure(w, e.status);
    w->end_object();
  }
  w->end_list();
}

void write_counts(JsonWriter* w, const EndpointCounts::Sums& sums) {
  w->begin_object("counters");
  w->field("calls", sums.calls);
  w->field("rows", sums.rows);
  w->field("nonfinite_rows", sums.nonfinite_rows);
  w->field("waits", sums.waits);
  write_by_code(w, "errors", sums.errors);
  w->end_object();
}

}  // namespace

void FollowedFolder::describe(JsonWriter* w) const {
  w->begin_object("follows");
  w->field("folder", path_);
  write_failure(w, status_);
  w->begin_list("refused");
  const auto write_refused = [w](const Refused& r) {
    w->begin_object();
    w->field("path", r.found.path);
    w->field("version", r.found.number);
    w->field("tries", r.tries);
    write_failure(w, r.why);
    w->end_object();
  };
  for (const auto& [path, r] : refused_) write_refused(r);
  for (const Refused& r : gaps_) write_refused(r);
  w->end_list();
  w->begin_list("not_taken");
  for (const Passed& p : passed_) {
    w->begin_object();
    w->field("path", p.found.path);
    w->field("version", p.found.number);
    w->field("reason", p.why);
    w->end_object();
  }
  w->end_list();
  w->end_object();
}

std::string Endpoint::status_json() const {
  const std::string stream = stream_json();  // first: not under state_mutex_
  JsonWriter w;
  const std::lock_guard<std::mutex> lock(state_mutex_);
  w.begin_object();
  w.field("name", name_);
  write_serving(&w, serving_.get());
  w.field("loads", loads_);
  w.field("failed_loads", failed_loads_);
  w.field("rollbacks", rollbacks_);
  if (failed_loads_ > 0) write_by_code(&w, "failures", failures_);
  w.field("highest_served", highest_);
  for (const Version* v : {serving_.get(), kept_.get()})
    if (v != nullptr) v->counts->settle(*v->model);
  write_counts(&w, counts_->sums());
  w.begin_object("memory");
  w.field("held_host_bytes", held_->host());
  w.field("held_device_bytes", held_->device());
  w.field("forecast_bytes", forecast_bytes());
  w.end_object();
  if (kept_ != nullptr) {
    w.begin_object("kept");
    write_version(&w, *kept_);
    const uint64_t now = monotonic_ns();
    const uint64_t left_ns = kept_until_ns_ > now ? kept_until_ns_ - now : 0;
    w.field("seconds_left", static_cast<double>(left_ns / 1'000'000) / 1e3);
    w.end_object();
  }
  if (!loading_.empty()) {
    w.begin_object("loading");
    w.field("path", loading_);
    const char* stage = stage_.load(std::memory_order_relaxed);
    w.field("stage", stage != nullptr ? stage : "");
    w.field("done", stage_done_.load(std::memory_order_relaxed));
    w.field("total", stage_total_.load(std::memory_order_relaxed));
    w.end_object();
  }
  if (loads_ + failed_loads_ > 0) {
    w.begin_object("last_load");
    w.field("path", last_.path);
    w.field("version", last_.number);
    w.field("at_ms", last_.at_ms);
    w.field("seconds", last_.seconds);
    write_failure(&w, last_.status);
    w.end_object();
  }
  write_history(&w, history_);
  if (recorder_->was_on()) recorder_->describe(&w);
  if (folder_.is_followed()) folder_.describe(&w);
  if (!stream.empty()) w.field_json("stream", stream);
  w.end_object();
  return w.take();
}

}  // namespace dpi
