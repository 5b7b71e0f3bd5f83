// Raw values outside a bundle's vocabularies: one here and there is serving's daily bread, a whole column of
// them means that the file is written otherwise than training's was.
#pragma once

#include <string>
#include <vector>

#include "loaded_model.hpp"

namespace dpi::tool {

class UnknownValues {
 public:
  /// Looks at features with an encoder whose unknown values become an id.
  explicit UnknownValues(const LoadedModel& model);

  /// Adds a batch as dpi_rows gives it.
  void count(const dpi_batch& batch);
  /// A text for each feature of which nearly every value was unknown.
  std::vector<std::string> notes() const;

 private:
  struct Feature {
    std::string name;
    size_t index = 0;
    int32_t slot = 0;
    int64_t id =
        0;  // what an unknown value becomes; known ones may have it too, so the model's counters tell
    int64_t before = 0;  // the model's count
    int64_t values = 0;
  };
  std::vector<int64_t> counted() const;

  const LoadedModel& model_;
  int32_t slots_ = 0;
  std::vector<Feature> features_;
};

}  // namespace dpi::tool
