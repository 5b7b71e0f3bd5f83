// From what a chain computes to the bytes its kernel reads: the program of every rank and the streams of
// weights (kernels/cuda/small_batch/program.hpp), for a choice of cluster size and warps. Used by
// small_batch/small_batch_op.cpp.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/small_batch/layout.hpp"
#include "kernels/cuda/small_batch/launch.hpp"

namespace dpi::backend {

struct ChainPlan {
  kernels::cuda::ChainShape shape;
  std::vector<char> programs;  // one per rank
  std::vector<char> weights;
  double micros = 0;  // of one tile, estimated
  int32_t stages = 0;
};

/// The plan with the shortest estimated time that fits; kUnsupported, with the bytes, when none does.
Result<ChainPlan> plan_chain(const ChainModel& model, kernels::cuda::ChainMode mode,
                             const kernels::cuda::ChainLimits& limits);

/// The programs of all ranks at one layout, one after another, each of the same size.
std::vector<char> write_programs(const ChainModel& model, const ChainLayout& layout,
                                 const std::vector<ChainRankPlan>& ranks, const ChainPlan& plan);

/// The blocks of all warps in the order of their use.
std::vector<char> pack_weights(const ChainModel& model, const std::vector<ChainRankPlan>& ranks,
                               const kernels::cuda::ChainShape& shape);

}  // namespace dpi::backend
