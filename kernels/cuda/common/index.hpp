// Index arithmetic of the CUDA kernels: rows of values, positions with broadcasting, blocked sums.
#pragma once

#include <dpi/kernels/tensor.hpp>

#include "kernels/cuda/common/simt.hpp"

namespace dpi::kernels::cuda {

constexpr int kThreads = 128;  // of kernels with one thread per output element

__device__ inline float* row_of(const Tensor& t, int64_t r) { return t.data + r * t.row_stride; }

__device__ inline int64_t size_of(const Dims& d) {
  int64_t n = 1;
  for (int i = 0; i < d.rank; ++i) n *= d.d[i];
  return n;
}

/// Where element `flat` of a row with dims `dst` lies in a row with dims `src`, which align at the right;
/// extents of 1 repeat.
__device__ inline int64_t broadcast_offset(const Dims& dst, int64_t flat, const Dims& src) {
  int64_t offset = 0;
  int64_t stride = 1;
  for (int i = dst.rank - 1; i >= 0; --i) {
    const int j = i - (dst.rank - src.rank);
    const int64_t index = flat % dst.d[i];
    flat /= dst.d[i];
    if (j < 0) continue;
    if (src.d[j] != 1) offset += index * stride;
    stride *= src.d[j];
  }
  return offset;
}

/// A row seen as [outer, n, inner] around one axis. Made on the host.
struct AxisView {
  int64_t outer = 1;
  int64_t n = 1;
  int64_t inner = 1;
};

inline AxisView axis_view(const Dims& dims, int axis) {
  AxisView v;
  v.n = dims.d[axis];
  for (int i = 0; i < axis; ++i) v.outer *= dims.d[i];
  for (int i = axis + 1; i < dims.rank; ++i) v.inner *= dims.d[i];
  return v;
}

/// A float32 sum in blocks of 32 terms: the rounding error grows with the number of blocks, not of terms.
class Sum {
 public:
  __device__ void add(float v) {
    part_ += v;
    next();
  }
  __device__ void add_product(float a, float b) {
    part_ = fmaf(a, b, part_);
    next();
  }
  __device__ float value() const { return total_ + part_; }

 private:
  __device__ void next() {
    if (++count_ < 32) return;
    total_ += part_;
    part_ = 0;
    count_ = 0;
  }
  float total_ = 0;
  float part_ = 0;
  int count_ = 0;
};

}  // namespace dpi::kernels::cuda
