#include "runtime/execute/timeline.hpp"

#include <algorithm>
#include <map>

namespace dpi {

Timeline::~Timeline() {
  if (engine_ == nullptr) return;
  const auto destroy = [this](dpi_backend_event* e) {
    if (e != nullptr) engine_->api().event_destroy(engine_->device(), e);
  };
  for (dpi_backend_event* e : events_) destroy(e);
  destroy(origin_);
}

Status Timeline::create(const Engine& engine) {
  if (engine.api().event_elapsed == nullptr) return {};
  engine_ = &engine;
  events_.assign(2 * engine.plan().ops.size(), nullptr);
  dpi_backend_error err{};
  for (auto& e : events_) {
    DPI_RETURN_IF_ERROR(backend_status(engine.api().event_create(engine.device(), &e, &err), err, "event"));
  }
  return backend_status(engine.api().event_create(engine.device(), &origin_, &err), err, "event");
}

Status Timeline::record(dpi_backend_event* event, dpi_backend_stream* stream) {
  dpi_backend_error err{};
  return backend_status(engine_->api().event_record(event, stream, &err), err, "timestamp");
}

Status Timeline::mark_origin(dpi_backend_stream* stream) { return record(origin_, stream); }
Status Timeline::mark_start(size_t op, dpi_backend_stream* stream) { return record(events_[2 * op], stream); }
Status Timeline::mark_end(size_t op, dpi_backend_stream* stream) {
  return record(events_[2 * op + 1], stream);
}

Status Timeline::collect() {
  const Plan& plan = engine_->plan();
  times_.resize(plan.ops.size());
  dpi_backend_error err{};
  for (size_t i = 0; i < times_.size(); ++i) {
    float ms[2] = {0, 0};
    for (size_t k = 0; k < 2; ++k) {
      const int32_t code = engine_->api().event_elapsed(origin_, events_[2 * i + k], &ms[k], &err);
      DPI_RETURN_IF_ERROR(backend_status(code, err, plan.ops[i].name));
    }
    times_[i] = {plan.ops[i].stream, ms[0] * 1000.0f, ms[1] * 1000.0f};
  }
  return {};
}

OverlapReport report_overlap(const std::vector<OpTime>& ops) {
  OverlapReport r;
  if (ops.empty()) return r;
  std::map<int32_t, float> first;
  std::vector<std::pair<float, int>> edges;  // time, +1 op starts or -1 op ends
  float begin = ops[0].start_us, end = ops[0].end_us;
  for (const OpTime& t : ops) {
    const auto [it, fresh] = first.emplace(t.stream, t.start_us);
    if (!fresh) it->second = std::min(it->second, t.start_us);
    edges.emplace_back(t.start_us, 1);
    edges.emplace_back(t.end_us, -1);
    begin = std::min(begin, t.start_us);
    end = std::max(end, t.end_us);
  }
  r.total_us = end - begin;
  for (const auto& [stream, start] : first) r.start_order.push_back(stream);
  std::sort(r.start_order.begin(), r.start_order.end(),
            [&](int32_t a, int32_t b) { return first[a] != first[b] ? first[a] < first[b] : a < b; });
  r.all_started_us = first[r.start_order.back()] - begin;
  // ops of one stream follow each other, so two at once are of two streams; ends sort before starts
  std::sort(edges.begin(), edges.end());
  int running = 0;
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    running += edges[i].second;
    if (running >= 2) r.overlap_us += edges[i + 1].first - edges[i].first;
  }
  return r;
}

}  // namespace dpi
