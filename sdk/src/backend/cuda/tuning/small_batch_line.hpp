// Measurements of the small-batch kernel for one model: one line of a tuning table (tuning/tuning.hpp).
//
//   # precision weights products ranks warps rows overlap microseconds
//   small_batch fp16 494544 tensor 8 8 256 off 6.3
//
// weights: elements of all Dense weights of the plan, by which a line is found. products: simt, tensor or
// 3xtf32 (fp32 by three tf32 products). rows: the largest batch for which the kernel is faster than its
// ops one by one; 0 = never. overlap: the kernel may start while the one before it ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/small_batch/program.hpp"

namespace dpi::backend::small_batch {

struct TuningLine {
  kernels::cuda::small_batch::Mode mode = kernels::cuda::small_batch::Mode::kF32;
  int64_t weights = 0;
  int32_t ranks = 1;
  int32_t warps = 8;
  int64_t rows = 0;
  bool overlap = false;
  double microseconds = 0;
};

/// An error about the words of a line that begins with "small_batch", or null.
const char* parse_tuning(const std::vector<std::string>& words, TuningLine* out);
std::string tuning_text(const TuningLine& t);

/// The line for this precision (0 fp32, 1 tf32, 2 fp16, 3 bf16) and these weights; null = none.
const TuningLine* find_tuning(const std::vector<TuningLine>& all, int32_t precision, int64_t weights);

}  // namespace dpi::backend::small_batch
