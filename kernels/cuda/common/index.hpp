// Index arithmetic of the CUDA kernels: rows of values, positions with broadcasting, blocked sums.
#pragma once

#include <dpi/kernels/index.hpp>

#include "kernels/cuda/common/simt.hpp"

namespace dpi::kernels::cuda {

constexpr int kThreads = 128;  // of kernels with one thread per output element

__device__ inline float* row_of(const Tensor& t, int64_t r) { return t.data + r * t.row_stride; }

__device__ inline int64_t size_of(const Dims& d) {
  int64_t n = 1;
  for (int i = 0; i < d.rank; ++i) n *= d.d[i];
  return n;
}

/// True if the slice does not count; without `positions` all count.
__device__ inline bool left_out(const Tensor& positions, int64_t r, int64_t slice) {
  return positions.data != nullptr && row_of(positions, r)[slice] == 0;
}

/// A float32 sum in blocks of 32 terms: the rounding error grows with the number of blocks, not of terms.
class Sum {
 public:
  __device__ void add(float v) {
    block_ += v;
    next();
  }
  __device__ void add_product(float a, float b) {
    block_ = fmaf(a, b, block_);
    next();
  }
  __device__ float value() const { return total_ + block_; }

 private:
  __device__ void next() {
    if (++count_ < 32) return;
    total_ += block_;
    block_ = 0;
    count_ = 0;
  }
  float total_ = 0;
  float block_ = 0;
  int count_ = 0;
};

}  // namespace dpi::kernels::cuda
