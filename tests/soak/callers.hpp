// What the soak of callers calls: three models of one environment, loaded anew each round, and the scores
// that the same models give to one thread.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/model/model.hpp"
#include "support/memory_watch.hpp"
#include "support/model_builder.hpp"
#include "support/random_batch.hpp"

namespace dpi::soak {

struct Request {
  std::unique_ptr<test::RandomBatch> rows;
  std::vector<float> want;
};

/// A demo bundle with bags, and two of the paper's models whose layers are large enough for their columns to
/// be shared out.
class ThreeModels {
 public:
  ThreeModels();

  static constexpr size_t kCount = 3;
  /// Model m with option threads=2 in this environment.
  std::unique_ptr<Model> load(size_t m, const std::shared_ptr<Environment>& environment);
  const std::vector<Request>& requests(size_t m) const { return requests_[m]; }
  void plant_score() { requests_[0][0].want[0] += 0.5f; }

 private:
  std::unique_ptr<Model> make(size_t m, const ModelOptions& options);

  std::deque<test::ModelBuilder> built_;  // of models 1 and 2
  std::vector<std::vector<Request>> requests_;
};

/// Scores, or ends the program.
std::vector<float> score(Model& model, const Batch& batch);

}  // namespace dpi::soak
