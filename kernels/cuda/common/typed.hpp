// Elements of values that may be float32, float16 or bfloat16 (Tensor::dtype): read as float, written rounded
// to nearest. The type is the same for a whole launch, so the branch costs no divergence.
#pragma once

#include "kernels/cuda/common/narrow.hpp"

namespace dpi::kernels::cuda {

__device__ inline float read_element(const void* data, DType type, int64_t i) {
  if (type == DType::kF32) return static_cast<const float*>(data)[i];
  if (type == DType::kF16) return widened(static_cast<const Half*>(data)[i]);
  return widened(static_cast<const Bfloat16*>(data)[i]);
}

__device__ inline void write_element(void* data, DType type, int64_t i, float v) {
  if (type == DType::kF32) {
    static_cast<float*>(data)[i] = v;
  } else if (type == DType::kF16) {
    static_cast<Half*>(data)[i] = half_of(v);
  } else {
    static_cast<Bfloat16*>(data)[i] = bfloat16_of(v);
  }
}

/// Element `column` of row `r`.
__device__ inline float read_at(const Tensor& t, int64_t r, int64_t column) {
  return read_element(t.data, t.dtype, r * t.row_stride + column);
}
__device__ inline void write_at(const Tensor& t, int64_t r, int64_t column, float v) {
  write_element(t.data, t.dtype, r * t.row_stride + column, v);
}

}  // namespace dpi::kernels::cuda
