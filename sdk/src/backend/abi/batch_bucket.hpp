// Batch buckets: a device call runs with its rows rounded up to one of few sizes, so that one captured graph
// and one choice of kernels serve many calls. 1, 2, 4 ... 512, then steps of 4/3 and 3/2 (768, 1024, 1536,
// 2048 ...): below 512 rows the time of a GPU hardly depends on the rows, above it at most a third of the
// work is padding.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dpi {

/// The smallest bucket that holds `rows` (1 <= rows <= max_rows), never beyond max_rows.
constexpr int64_t bucket_of(int64_t rows, int64_t max_rows) {
  constexpr int64_t kFine = 512;
  int64_t power = 1;
  while (power < rows) power *= 2;
  const int64_t between = power / 4 * 3;
  const int64_t bucket = power > kFine && between >= rows ? between : power;
  return std::min(bucket, max_rows);
}

/// The bucket after `bucket`; max_rows is the last.
constexpr int64_t next_bucket(int64_t bucket, int64_t max_rows) { return bucket_of(bucket + 1, max_rows); }

}  // namespace dpi
