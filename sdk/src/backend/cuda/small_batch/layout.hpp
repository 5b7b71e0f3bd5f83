// Where the values of a chain lie in a rank's shared memory, and how the products are divided among ranks and
// warps. Used by small_batch/plan.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cuda/small_batch/model.hpp"
#include "kernels/cuda/small_batch/program.hpp"

namespace dpi::backend {

struct ChainLayout {
  std::vector<kernels::cuda::ChainView> views;  // per value, of its first column
  int32_t begin = 0;
  int32_t end = 0;
  int32_t zero_bytes = 0;  // from begin on: what has to start as zeros

  kernels::cuda::ChainView view_of(const ChainRef& r) const;
};

/// What is kept as float32 where products read 16 bits, from the most to the least memory.
enum class ChainExactness : int32_t {
  kAll = 0,      // everything that is read by more than products
  kFactors = 1,  // not what is multiplied with or added to a product and read by products too
  kLittle = 2,   // only short values and what FM reads
};

/// Values whose levels do not meet share bytes.
ChainLayout layout_values(const ChainModel& model, kernels::cuda::ChainMode mode, ChainExactness exactness,
                          int32_t begin);

/// Blocks begin .. end - 1 of the depth of 32 columns of a product; step -1: nothing.
struct ChainUnitPlan {
  int32_t step = -1;
  int32_t tile = 0;
  int32_t begin = 0;
  int32_t end = 0;
};
struct ChainTilePlan {
  int32_t step = 0;
  int32_t tile = 0;
  int32_t first_patch = 0;
  int32_t slices = 0;
};
struct ChainRoundPlan {
  std::vector<ChainUnitPlan> units;  // one per warp
  std::vector<ChainTilePlan> tiles;
};
/// One rank: rounds of each level. All ranks have as many rounds in a level.
struct ChainRankPlan {
  std::vector<std::vector<ChainRoundPlan>> levels;
};

std::vector<ChainRankPlan> divide_products(const ChainModel& model, int32_t ranks, int32_t warps);

/// Blocks of the depth, and tiles of columns, of a product.
int32_t product_blocks(const ChainStep& s);
int32_t product_tiles(const ChainStep& s);

constexpr int32_t round_up(int32_t n, int32_t to) { return (n + to - 1) / to * to; }

}  // namespace dpi::backend
