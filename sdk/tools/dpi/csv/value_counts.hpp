// Counts of a file's values that were unknown to a vocabulary, out of range, missing or refused. A few are
// normal in serving; half a column of them means that the file is written otherwise than training's was.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sdk/tools/dpi/shared/loaded_model.hpp"

namespace dpi::tool {

class ValueCounts {
 public:
  /// Counts from here on, by the model's counters.
  explicit ValueCounts(const LoadedModel& model);

  /// Adds a batch as dpi_rows gives it.
  void count(const dpi_batch& batch);

  /// One object per feature: name, values, and how many of these were unknown, out_of_range, unparsable,
  /// missing.
  nlohmann::ordered_json json() const;
  /// A text for each feature of which half the values or more were one of these.
  std::vector<std::string> warnings() const;

 private:
  struct Feature {
    std::string name;
    std::string unknown_id;  // what an unknown value becomes; empty: it is refused
    nlohmann::json before;   // the model's counts
    int64_t values = 0;      // in the batches
  };
  std::vector<Feature> features_;
  const LoadedModel& model_;
  int32_t slots_ = 0;
};

/// "feature 'city': 12 of 300 values unknown, 3 missing" for each feature with any, the worst first, at most
/// `most` and one that counts the rest.
std::vector<std::string> count_lines(const nlohmann::ordered_json& counts, size_t most);

}  // namespace dpi::tool
