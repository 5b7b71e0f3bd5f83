// What the soak scores: every demo bundle on every device that is there, with batches and raw rows and the
// scores that the first load gave for them. The model in service is swapped under the threads.
#pragma once

#include <dpi/dpi.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "support/handles.hpp"
#include "support/some_rows.hpp"

namespace dpi::soak {

using fuzz::Owned;
using fuzz::SomeRows;

struct Case {
  std::unique_ptr<SomeRows> rows;
  std::vector<float> scores;
};

/// Cells of rows, by feature, as the demo's CSV file has them.
struct RawRows {
  std::vector<std::vector<std::string>> cells;
  std::vector<float> scores;
};

class Subject {
 public:
  /// Loads and scores for the first time.
  Subject(const std::string& bundle, const std::string& csv, const std::string& device);

  const std::string& device() const { return device_; }
  const std::string& bytes() const { return bytes_; }
  const std::vector<Case>& cases() const { return cases_; }
  const RawRows& raw() const { return raw_; }

  /// A new model of the bundle, its options a little different each time; never null.
  Owned<dpi_model> load(uint32_t random) const;
  /// Expects one score that is not so: a fault for the soak's own test.
  void plant_score() { cases_[0].scores[0] += 0.5f; }
  /// A reference to the model in service.
  Owned<dpi_model> take();
  void swap(Owned<dpi_model> next);

 private:
  std::string path_, device_, bytes_;
  std::vector<Case> cases_;
  RawRows raw_;
  std::mutex lock_;
  Owned<dpi_model> served_;
};

/// Scores of raw rows, or ends the program.
std::vector<float> score_raw(dpi_model* model, const RawRows& raw);
/// Scores of a batch, or ends the program.
std::vector<float> score(dpi_model* model, const dpi_batch& batch);
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

/// The devices of `wanted` that can be used; says on stderr which cannot.
std::vector<std::string> usable_devices(const std::vector<std::string>& wanted);

}  // namespace dpi::soak
