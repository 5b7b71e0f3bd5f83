// Four neighbouring elements at once, of values of every type (Tensor::dtype), and how threads that each have
// four columns of several rows lie over a matrix.
#pragma once

#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/common/loads.hpp"
#include "kernels/cuda/common/typed.hpp"

namespace dpi::kernels::cuda {

/// Four elements as they lie in memory; 16-bit elements fill the first two words. Loading and widening are
/// separate, so that a thread can have several in flight.
struct RawFour {
  uint32_t w[4];
};

/// May every fourth element of every row be read and written with the three after it in one access?
inline bool lies_in_fours(const void* data, int64_t stride, DType type) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(4 * dtype_bytes(type)) == 0 &&
         stride % 4 == 0;
}

__device__ inline void load_four(const void* data, DType type, int64_t i, RawFour* v) {
  if (type == DType::kF32) {
    load16(static_cast<const float*>(data) + i, OwnRead(), v->w);
  } else {
    load8(static_cast<const uint16_t*>(data) + i, OwnRead(), v->w);
  }
}

__device__ inline void widen_four(const RawFour& v, DType type, float (&to)[4]) {
  DPI_UNROLL
  for (int k = 0; k < 4; ++k) {
    if (type == DType::kF32) {
      to[k] = float_of(v.w[k]);
    } else {
      const auto bits = static_cast<uint16_t>(v.w[k / 2] >> (k % 2 * 16));
      to[k] = type == DType::kF16 ? widened(Half{bits}) : widened(Bfloat16{bits});
    }
  }
}

template <class T>
__device__ inline uint32_t narrowed_pair(float low, float high) {
  return narrowed<T>(low).bits | uint32_t{narrowed<T>(high).bits} << 16;
}

/// Rounded as write_element rounds.
__device__ inline void store_four(void* data, DType type, int64_t i, const float (&v)[4]) {
  if (type == DType::kF32) {
    store16(static_cast<float*>(data) + i, bits_of(v[0]), bits_of(v[1]), bits_of(v[2]), bits_of(v[3]));
  } else if (type == DType::kF16) {
    store8(static_cast<uint16_t*>(data) + i, narrowed_pair<Half>(v[0], v[1]),
           narrowed_pair<Half>(v[2], v[3]));
  } else {
    store8(static_cast<uint16_t*>(data) + i, narrowed_pair<Bfloat16>(v[0], v[1]),
           narrowed_pair<Bfloat16>(v[2], v[3]));
  }
}

/// Threads over `columns` columns (or groups of them) and every `slots`-th row from one of the first `slots`
/// on: neighbours in a row first, so that no thread idles whatever the width.
struct Spread {
  uint32_t columns = 0;
  uint32_t slots = 0;

  uint32_t threads() const { return columns * slots; }
  dim3 grid() const { return dim3(blocks_for(threads(), kThreads, 0x7fffffff)); }
};

/// A thread takes several rows where there are more than threads wanted, and knows its columns' parameters
/// once for all of them.
inline Spread spread_over(int64_t columns, int64_t rows) {
  const int64_t all = columns * rows;
  const int64_t each = all < (1 << 16) ? 1 : all < (1 << 17) ? 2 : 4;
  const int64_t most = columns > 0 ? 0x7fffffff / columns : 0;
  const int64_t slots = (rows + each - 1) / each;
  return {static_cast<uint32_t>(columns), static_cast<uint32_t>(slots < most ? slots : most)};
}

/// The calling thread's: columns `column`, rows slot, slot + slots, ...; without one where not `exists`.
struct Share {
  uint32_t column;
  uint32_t slot;
  bool exists;

  __device__ explicit Share(const Spread& s) {
    const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    column = thread % s.columns;
    slot = thread / s.columns;
    exists = slot < s.slots;
  }
};

}  // namespace dpi::kernels::cuda
