// Runs a plan op by op with the reference kernels over one arena laid out by plan_memory: the plan's meaning,
// without the runtime.
#pragma once

#include <vector>

#include "plan/plan.hpp"

namespace dpi::test {

/// Inputs of one batch, per feature: floats [rows, dim], or a bag of ids per row. Shared features have
/// shared_rows rows.
struct TestBatch {
  int64_t rows = 0;
  int64_t shared_rows = 0;
  std::vector<int32_t> row_map;                        // item row -> shared row
  std::vector<std::vector<float>> floats;              // by feature
  std::vector<std::vector<std::vector<int32_t>>> ids;  // by feature and row
};

TestBatch random_batch(const std::vector<FeatureSpec>& features, int64_t rows, int64_t shared_rows,
                       uint32_t seed);

struct Scores {
  std::vector<float> value, logit;  // [rows, heads]
};

/// Order of execution: the issue order, or (late = true) another order that streams and events allow: of the
/// ops that may start, the last one. The arena and the outputs start as NaN. `tables`: the bundle's tables,
/// f32.
Scores interpret(const Plan& plan, const TestBatch& batch, const std::vector<std::vector<float>>& tables,
                 bool late = false);

}  // namespace dpi::test
