// The block that `dpi predict --summary` prints: scores against labels, throughput and latency, beside what
// the training framework got.
#pragma once

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sdk/tools/dpi/shared/loaded_model.hpp"

namespace dpi::tool {

inline constexpr size_t kShownFeatures = 8;  // with values that were unknown or missing

struct Summary {
  int64_t rows = 0;
  int64_t batch = 0;
  std::string head;                 // which the metrics belong to
  std::vector<float> scores;        // of that head
  std::vector<float> labels;        // empty without --label
  std::vector<double> latencies;    // seconds per dpi_predict call
  nlohmann::ordered_json features;  // ValueCounts::json
  double predict_seconds = 0;
  double total_seconds = 0;  // reading, encoding and predicting
};

nlohmann::ordered_json summary_json(const LoadedModel& model, Summary* s);
void print_summary(const nlohmann::ordered_json& j, std::FILE* out);

}  // namespace dpi::tool
