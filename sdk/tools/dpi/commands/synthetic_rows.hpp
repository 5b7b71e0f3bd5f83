// Random rows that a model accepts, the same on every run: what `dpi bench` scores when it is given no rows.
#pragma once

#include <cstdint>
#include <vector>

#include "sdk/tools/dpi/shared/loaded_model.hpp"

namespace dpi::tool {

struct SyntheticPart {
  std::vector<float> dense;
  std::vector<int64_t> ids, offsets{0};
  int64_t rows = 0;
};

struct SyntheticRows {
  SyntheticPart item;  // without a shared part: every feature
  SyntheticPart shared;
  std::vector<int64_t> shared_offsets;  // empty: no shared part
  int64_t rows() const { return item.rows; }
  dpi_batch batch() const;
};

/// Ids uniform over each vocabulary; bags of 1 to min(max_len, 16) ids; floats in [-1, 1).
SyntheticRows make_rows(const LoadedModel& model, int64_t rows, uint64_t seed);

/// The same rows twice: those of a user have the user's features in common.
struct UserRows {
  SyntheticRows shared;    // given once per user
  SyntheticRows expanded;  // repeated for each row
};
/// Users get `rows` / `users` rows each, the first ones one more where that leaves some over.
UserRows make_user_rows(const LoadedModel& model, int64_t rows, int64_t users, uint64_t seed);

/// Different batches of `rows` rows, as many as `pool` rows give, at least one. What one batch asks for lies
/// in the caches when it is scored again and again: the table rows of a pool do not, unless the tables are
/// small.
std::vector<SyntheticRows> make_pool(const LoadedModel& model, int64_t rows, int64_t pool, uint64_t seed);
std::vector<UserRows> make_user_pool(const LoadedModel& model, int64_t rows, int64_t users, int64_t pool,
                                     uint64_t seed);

}  // namespace dpi::tool
