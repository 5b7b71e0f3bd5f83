// Golden rows from their raw cells: does the engine encode them as training did?
#pragma once

#include <string>
#include <vector>

#include "bundle/bundle.hpp"
#include "sdk/tools/dpi/shared/loaded_model.hpp"

namespace dpi::tool {

struct RawComparison {
  int64_t rows = 0;
  int64_t cells = 0;  // one of each feature in a row
  int64_t failed = 0;
  std::vector<int64_t> failed_of;  // by feature, in the order of GoldenRaw::features
  std::string first;  // "row 3, feature 'city': '1.0' gives id 7, golden 2"; empty when every cell agrees
};

/// Encodes every raw cell with the model's encoders and compares it, after the rules of its feature, with the
/// golden ids and floats. A cell that the encoders refuse fails.
RawComparison compare_raw(const LoadedModel& model, const Manifest& manifest, const GoldenRows& golden,
                          const GoldenRaw& raw);

}  // namespace dpi::tool
