// Random rows that a model accepts, the same on every run: what `dpi bench` scores when it is given no rows.
#pragma once

#include <cstdint>
#include <vector>

#include "loaded_model.hpp"

namespace dpi::tool {

struct SyntheticRows {
  std::vector<float> dense;
  std::vector<int64_t> ids, offsets;
  int64_t rows = 0;
  dpi_batch batch() const;
};

/// Ids uniform over each vocabulary; bags of 1 to min(max_len, 16) ids; floats in [-1, 1).
SyntheticRows make_rows(const LoadedModel& model, int64_t rows, uint64_t seed);

}  // namespace dpi::tool
