// How tensor cores add up, for emulated products. What was published about them by experiment: the products
// of one step are exact; they and the accumulator are cut, not rounded, to one unit, a few bits below the
// last place of the largest of them; their sum is exact and is cut to float32. So a long sum of cut steps
// drifts towards zero, and small terms that meet a full accumulator are lost.
#pragma once

#include <cstdint>

namespace dpi::emu {

/// Columns that one call computes.
constexpr int kTensorColumns = 16;

struct TensorCore {
  int depth_tf32;  // products added in one step
  int depth_16;    // of 16-bit elements
  int extra_bits;  // kept below float32's last place while a step adds up
};
constexpr TensorCore kHopper = {8, 16, 2};
constexpr TensorCore kAmpere = {4, 8, 1};

/// Hopper; DPI_EMU_TENSOR=ampere in the environment names the other.
const TensorCore& tensor_core();

/// sum[n] += sum over k of a[k] * b[k][n] for 16 n, `step` products at a time. Elements are exactly tf32 or
/// 16-bit floats. Infinities and NaN go where ordinary addition takes them.
void tensor_add(float* sum, const float* a, const float (*b)[kTensorColumns], int depth, int step,
                int extra_bits);

inline void tensor_add_tf32(float* sum, const float* a, const float (*b)[kTensorColumns], int depth) {
  const TensorCore& c = tensor_core();
  tensor_add(sum, a, b, depth, c.depth_tf32, c.extra_bits);
}
inline void tensor_add_16(float* sum, const float* a, const float (*b)[kTensorColumns], int depth) {
  const TensorCore& c = tensor_core();
  tensor_add(sum, a, b, depth, c.depth_16, c.extra_bits);
}

}  // namespace dpi::emu
