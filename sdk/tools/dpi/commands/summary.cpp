#include "sdk/tools/dpi/commands/summary.hpp"

#include <cmath>

#include "sdk/tools/dpi/csv/value_counts.hpp"
#include "sdk/tools/dpi/shared/metrics.hpp"
#include "sdk/tools/dpi/shared/terminal.hpp"

namespace dpi::tool {

namespace {

using Json = nlohmann::ordered_json;

/// {"value": ours, "framework": theirs, "difference": ...}; null where there is none.
Json metric(double ours, const nlohmann::json& framework, const char* key) {
  Json j;
  j["value"] = std::isfinite(ours) ? Json(ours) : Json();
  if (!framework.is_object() || !framework.contains(key) || !framework[key].is_number()) return j;
  j["framework"] = framework[key].get<double>();
  if (std::isfinite(ours)) j["difference"] = ours - framework[key].get<double>();
  return j;
}

std::string metric_text(const Json& m) {
  if (m["value"].is_null()) return "not defined for these labels";
  std::string text = padded(number_text(m["value"], 6), 16);
  if (!m.contains("framework")) return text;
  char difference[32];
  std::snprintf(difference, sizeof difference, "%+.1e", m["difference"].get<double>());
  return text + "training framework " + number_text(m["framework"], 6) + ", difference " + difference;
}

}  // namespace

Json summary_json(const LoadedModel& model, Summary* s) {
  Json j;
  j["model"] = model.schema().value("name", "");
  j["device"] = model.device_text();
  j["rows"] = s->rows;
  if (!s->labels.empty()) {
    nlohmann::json framework;
    const auto provenance = model.schema().find("provenance");
    if (provenance != model.schema().end() && provenance->is_object())
      framework = provenance->value("metrics", nlohmann::json());
    j["head"] = s->head;
    j["auc"] = metric(auc(s->scores, s->labels), framework, "auc");
    j["logloss"] = metric(log_loss(s->scores, s->labels), framework, "logloss");
    if (framework.is_object() && framework.contains("rows")) j["framework_rows"] = framework["rows"];
  }
  j["features"] = s->features;
  j["batch"] = s->batch;
  j["rows_per_second"] =
      s->predict_seconds > 0 ? Json(static_cast<double>(s->rows) / s->predict_seconds) : Json();
  j["rows_per_second_with_csv"] =
      s->total_seconds > 0 ? Json(static_cast<double>(s->rows) / s->total_seconds) : Json();
  const bool any = !s->latencies.empty();
  j["latency_p50_us"] = any ? Json(percentile(&s->latencies, 0.50) * 1e6) : Json();
  j["latency_p99_us"] = any ? Json(percentile(&s->latencies, 0.99) * 1e6) : Json();
  return j;
}

void print_summary(const Json& j, std::FILE* out) {
  const auto line = [out](const char* key, const std::string& text) {
    print_line(out, "  %-10s %s", key, text.c_str());
  };
  print_line(out, "%s on %s", j["model"].get<std::string>().c_str(), j["device"].get<std::string>().c_str());
  line("rows", count_text(j["rows"]));
  if (j.contains("auc")) {
    line("AUC", metric_text(j["auc"]));
    line("log loss", metric_text(j["logloss"]));
    if (j.contains("framework_rows") && j["framework_rows"] != j["rows"]) {
      line("", "note: the framework's values are of " + j["framework_rows"].dump() + " rows");
    }
  }
  const auto counts = count_lines(j["features"], kShownFeatures);
  if (counts.empty()) line("values", "none unknown, out of range, unparsable or missing");
  for (size_t i = 0; i < counts.size(); ++i) line(i == 0 ? "values" : "", counts[i]);
  if (j["rows_per_second"].is_null()) return;
  line("rows/s", count_text(j["rows_per_second"]) + " in dpi_predict, " +
                     count_text(j["rows_per_second_with_csv"]) + " with reading and encoding");
  line("latency", "p50 " + seconds_text(j["latency_p50_us"].get<double>() / 1e6) + ", p99 " +
                      seconds_text(j["latency_p99_us"].get<double>() / 1e6) + "  (a call of " +
                      j["batch"].dump() + " rows)");
}

}  // namespace dpi::tool
