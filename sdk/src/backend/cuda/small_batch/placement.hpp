// Where the values of a small batch lie in a rank's shared memory, and how the products are divided among
// ranks and warps. Used by small_batch/plan.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/small_batch/model.hpp"
#include "kernels/cuda/small_batch/program.hpp"

namespace dpi::backend::small_batch {

struct Placement {
  std::vector<kernels::cuda::small_batch::View> views;  // per value, of its first column
  int32_t begin = 0;
  int32_t end = 0;
  int32_t zero_bytes = 0;  // from begin on: what has to start as zeros

  kernels::cuda::small_batch::View view_of(const Ref& r) const;
};

/// Values that are kept as float32 where products read 16 bits, from the most to the least memory.
enum class Exactness : int32_t {
  kAll = 0,      // everything that is read by more than products
  kFactors = 1,  // as kAll, but not mul and add of a Dense that products read as well
  kLittle = 2,   // only short values and what FM reads
};

/// Values whose levels do not meet share bytes.
Placement place_values(const BatchModel& model, kernels::cuda::small_batch::Mode mode, Exactness exactness,
                       int32_t begin);

/// Blocks begin .. end - 1 of the depth of 32 columns of a product; node -1: nothing.
struct UnitPlan {
  int32_t node = -1;
  int32_t tile = 0;
  int32_t begin = 0;
  int32_t end = 0;
};
struct TilePlan {
  int32_t node = 0;
  int32_t tile = 0;
  int32_t first_patch = 0;
  int32_t slices = 0;
};
struct RoundPlan {
  std::vector<UnitPlan> units;  // one per warp
  std::vector<TilePlan> tiles;
};
/// One rank: rounds of each level. All ranks have as many rounds in a level.
struct RankPlan {
  std::vector<std::vector<RoundPlan>> levels;
};

std::vector<RankPlan> divide_products(const BatchModel& model, int32_t ranks, int32_t warps);

/// Blocks of the depth, and tiles of columns, of a product.
int32_t product_blocks(const Node& s);
int32_t product_tiles(const Node& s);

constexpr int32_t round_up(int32_t n, int32_t to) { return (n + to - 1) / to * to; }

}  // namespace dpi::backend::small_batch
