// From what a small batch computes to the bytes its kernel reads: the program of every rank and the streams
// of weights (kernels/cuda/small_batch/program.hpp), for a choice of cluster size and warps. Used by
// small_batch/small_batch_op.cpp.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/small_batch/placement.hpp"
#include "kernels/cuda/small_batch/launch.hpp"

namespace dpi::backend::small_batch {

struct Plan {
  kernels::cuda::small_batch::Shape shape;
  std::vector<char> programs;  // one per rank
  std::vector<char> weights;
  double micros = 0;  // of one tile, estimated
  int32_t stages = 0;
  int32_t levels = 0;
};

/// The plan with the shortest estimated time that fits; kUnsupported, with the bytes, when none does.
Result<Plan> make_plan(const Model& model, kernels::cuda::small_batch::Mode mode,
                       const kernels::cuda::small_batch::Limits& limits);

/// The programs of all ranks at one placement, one after another, each of the same size: writer.cpp.
std::vector<char> write_programs(const Model& model, const Placement& placement,
                                 const std::vector<RankPlan>& ranks, const Plan& plan);

/// The blocks of all warps in the order of their use.
std::vector<char> pack_weights(const Model& model, const std::vector<RankPlan>& ranks,
                               const kernels::cuda::small_batch::Shape& shape);

}  // namespace dpi::backend::small_batch
