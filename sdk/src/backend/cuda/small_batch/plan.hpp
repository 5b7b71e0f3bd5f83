// From what a small batch computes to the bytes its kernel reads: the program of every rank and the streams
// of weights (kernels/cuda/small_batch/program.hpp), for a choice of cluster size and warps. Used by
// small_batch/small_batch_op.cpp.
#pragma once

#include <string>
#include <vector>

#include "backend/cuda/small_batch/placement.hpp"
#include "kernels/cuda/small_batch/launch.hpp"

namespace dpi::backend::small_batch {

struct BatchPlan {
  kernels::cuda::small_batch::Shape shape;
  std::vector<char> programs;  // one per rank
  std::vector<char> weights;
  double micros = 0;  // of one tile, estimated
  int32_t stages = 0;
  int32_t levels = 0;
};

constexpr int32_t kOutputBytes = kernels::cuda::small_batch::kMaxOutputs *
                                 static_cast<int32_t>(sizeof(kernels::cuda::small_batch::Output));

/// Where the rings of weights begin, behind the patches, which lie at `patches_at`, and the outputs of the
/// call. Until the gather is over, its inputs and tables lie where the patches will.
constexpr int32_t ring_at(const kernels::cuda::small_batch::Shape& s, int32_t patches_at) {
  namespace gpu = kernels::cuda::small_batch;
  const int32_t patches = s.warps * gpu::kPatchBytes;
  const int32_t views = gpu::staged_bytes(s.n_inputs, s.n_tables);
  return round_up(patches_at + round_up(patches > views ? patches : views, 16) + kOutputBytes, 128);
}

/// The plan with the shortest estimated time that fits; kUnsupported, with the bytes, when none does.
Result<BatchPlan> make_plan(const BatchModel& model, kernels::cuda::small_batch::Mode mode,
                            const kernels::cuda::small_batch::Limits& limits);

/// The programs of all ranks at one placement, one after another, each of the same size: writer.cpp.
std::vector<char> write_programs(const BatchModel& model, const Placement& placement,
                                 const std::vector<RankPlan>& ranks, const BatchPlan& plan);

/// The blocks of all warps in the order of their use.
std::vector<char> pack_weights(const BatchModel& model, const std::vector<RankPlan>& ranks,
                               const kernels::cuda::small_batch::Shape& shape);

}  // namespace dpi::backend::small_batch
