#include "runtime/describe/metrics.hpp"

#include "base/json_text.hpp"
#include "runtime/describe/by_code.hpp"
#include "runtime/endpoint/endpoint.hpp"
#include "runtime/model/model.hpp"

namespace dpi {

namespace {

constexpr double kNanosecond = 1e-9;
constexpr int kFirstTime = 10;  // 2^10 ns: what takes less is under the first bound, 1.024 us

void write_times(const TimeSums& times, const MetricLabels& labels, MetricsPage* page) {
  page->histogram("dpi_call_seconds", "Time of a call, from its wish for a context to its scores.", labels,
                  times.call, kNanosecond, kFirstTime);
  page->quantiles("dpi_call_quantile_seconds", "Quantiles of dpi_call_seconds over all calls so far.", labels,
                  times.call, kNanosecond);
  page->histogram("dpi_wait_seconds", "Of the time of a call, its wait for a context or for its chunk.",
                  labels, times.wait, kNanosecond, kFirstTime);
  page->histogram("dpi_call_rows", "Rows of a call.", labels, times.rows, 1, 0);
  page->histogram("dpi_chunk_rows", "Rows of a batcher's chunk.", labels, times.chunk_rows, 1, 0);
  for (size_t s = 0; s < StageTimes::kStages; ++s) {
    MetricLabels of_stage = labels;
    of_stage.emplace_back("stage", StageTimes::name(s));
    page->histogram("dpi_stage_seconds", "Time of a call by stage, of one call in sixteen.", of_stage,
                    times.stages[s], kNanosecond, kFirstTime);
    page->quantiles("dpi_stage_quantile_seconds",
                    "Quantiles of dpi_stage_seconds over all timed calls so far.", of_stage, times.stages[s],
                    kNanosecond);
  }
}

/// In the form of Model::counters_json.
std::string counts_json(const EndpointCounts::Sums& sums) {
  JsonWriter w;
  w.begin_object();
  w.field("calls", sums.calls);
  w.field("rows", sums.rows);
  w.field("nonfinite_rows", sums.nonfinite_rows);
  w.field("waits", sums.waits);
  write_by_code(&w, "errors", sums.errors);
  w.end_object();
  return w.take();
}

void write_bytes(const Model& m, const MetricLabels& labels, MetricsPage* page) {
  const Engine& e = m.engine();
  const Model::TableBytes tables = m.table_bytes();
  const uint64_t weights = e.weight_bytes() * m.engines().size();
  page->gauge("dpi_model_host_bytes", "Tables and weights in host memory.", labels,
              std::to_string(tables.host + (e.host_memory() ? weights : 0)));
  page->gauge("dpi_model_device_bytes", "Tables and weights in device memory.", labels,
              std::to_string(tables.device + (e.host_memory() ? 0 : weights)));
}

/// name: of who holds them.
void write_held(const char* name, const HeldBytes& held, const MetricLabels& labels, MetricsPage* page) {
  for (const bool on_device : {false, true}) {
    MetricLabels where = labels;
    where.emplace_back("where", on_device ? "device" : "host");
    page->gauge(name, "Bytes allocated and not given back.", where,
                std::to_string(on_device ? held.device() : held.host()));
  }
}

/// Zeros too: an alert on a rise needs a first value.
void write_recording(const Recorder& recorder, const MetricLabels& labels, MetricsPage* page) {
  if (!recorder.was_on()) return;
  const Recorder::Counts c = recorder.counts();
  page->counter("dpi_recorded_requests", "Requests written to record files.", labels,
                std::to_string(c.recorded));
  page->counter("dpi_recorded_bytes", "Bytes written to record files.", labels, std::to_string(c.bytes));
  for (size_t i = 0; i < Recorder::kCauses; ++i) {
    MetricLabels of_cause = labels;
    of_cause.emplace_back("cause", Recorder::name_of(i));
    page->counter("dpi_record_dropped", "Requests that were drawn and not recorded.", of_cause,
                  std::to_string(c.dropped[i]));
  }
}

}  // namespace

void Model::write_metrics(const std::string& label, MetricsPage* page) const {
  const MetricLabels labels = {{"model", label}};
  page->counters(counters_json(), labels);
  write_bytes(*this, labels, page);
  write_held("dpi_model_held_bytes", held(), labels, page);
  write_times(counts().times, labels, page);
}

void Endpoint::write_metrics(const std::string& label, MetricsPage* page) const {
  const MetricLabels labels = {{"endpoint", label}};
  const std::lock_guard<std::mutex> lock(state_mutex_);  // versions stay meanwhile
  for (const Version* v : {serving_.get(), kept_.get()})
    if (v != nullptr) v->counts->settle(*v->model);
  const EndpointCounts::Sums sums = counts_->sums();
  page->counters(counts_json(sums), labels);
  write_times(sums.times, labels, page);
  write_held("dpi_endpoint_held_bytes", *held_, labels, page);
  page->gauge("dpi_endpoint_forecast_bytes",
              "Forecast for the versions that serve or are kept, with all contexts.", labels,
              std::to_string(forecast_bytes()));
  write_recording(*recorder_, labels, page);
  if (serving_ == nullptr) return;
  page->counters(serving_->model->counters_json(), labels,
                 {"calls", "rows", "nonfinite_rows", "waits", "errors"});
  write_bytes(*serving_->model, labels, page);
}

std::string Endpoint::slow_json() const {
  const std::lock_guard<std::mutex> lock(state_mutex_);
  std::vector<SlowCalls::Text> all = counts_->slow();
  for (const Version* v : {kept_.get(), serving_.get()}) {
    if (v == nullptr) continue;
    for (SlowCalls::Text& t : v->model->slow_calls()) all.push_back(std::move(t));
  }
  return SlowCalls::list(std::move(all));
}

std::string metrics_text(const Environment& environment, const MetricsPage::Form& form) {
  MetricsPage page(form);
  environment.observed().write_all(&page);
  return page.text();
}

}  // namespace dpi
