// Rows for a model that nobody has seen before: ids of its vocabularies and beyond, bags of any length,
// floats.
#pragma once

#include <dpi/dpi.h>

#include <cstdint>
#include <vector>

namespace dpi::fuzz {

struct SomeRows {
  std::vector<int64_t> ids, offsets;
  std::vector<float> dense;
  dpi_batch batch{};

  /// The same rows for the same seed. The batch points into this object.
  SomeRows(const dpi_model* model, int64_t rows, uint32_t seed);
  /// Row `r` of `all` alone.
  SomeRows(const SomeRows& all, const dpi_model* model, int64_t r);
  SomeRows(const SomeRows&) = delete;
  SomeRows& operator=(const SomeRows&) = delete;

 private:
  void bind(int64_t rows);
};

}  // namespace dpi::fuzz
