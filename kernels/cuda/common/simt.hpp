// The spellings that kernels use instead of CUDA's own, so that one source serves nvcc and, in tests, an
// ordinary C++ compiler (kernels/emu). Shared memory and launches are spelled here and nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef __CUDACC__
#include "kernels/emu/simt_emu.hpp"
#endif

namespace dpi::kernels::cuda {

/// cudaStream_t, or the emulation's stream: as the backend's host code passes it on.
using Stream = void*;

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

#ifdef __CUDACC__

#define DPI_SHARED(T, name, n) __shared__ T name[n]
#define DPI_UNROLL _Pragma("unroll")
#define DPI_PRAGMA(text) _Pragma(#text)
#define DPI_UNROLL_BY(n) DPI_PRAGMA(unroll n)
/// Shared memory whose size the launch gives; one per kernel. n: elements, for the emulation.
#define DPI_SHARED_DYNAMIC(T, name, n)                                 \
  extern __shared__ __align__(128) unsigned char dpi_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(dpi_dynamic_shared)

/// The launch itself. Not <<<>>>, which gives no code: cudaGetLastError() after it may tell of an earlier
/// call.
template <class... P, class... A>
int launch_native(void (*kernel)(P...), dim3 grid, dim3 block, Stream stream, const A&... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = static_cast<cudaStream_t>(stream);
  return static_cast<int>(cudaLaunchKernelEx(&config, kernel, args...));
}

/// Is there code of `kernel` for the current GPU? CUDA's code of the answer, 0 = yes.
template <class... P>
int find_code(void (*kernel)(P...)) {
  cudaFuncAttributes unused{};
  const int code = static_cast<int>(cudaFuncGetAttributes(&unused, kernel));
  if (code != 0) static_cast<void>(cudaGetLastError());
  return code;
}

#else

#define DPI_UNROLL
#define DPI_UNROLL_BY(n)
#define DPI_SHARED(T, name, n)                                                         \
  T* const name = static_cast<T*>([] {                                                 \
    static const char dpi_key = 0; /* one address per declaration and instantiation */ \
    return dpi::emu::shared_array(&dpi_key, sizeof(T) * (n));                          \
  }())
#define DPI_SHARED_DYNAMIC(T, name, n)                                           \
  T* const name = static_cast<T*>([&] {                                          \
    static const char dpi_key = 0;                                               \
    return dpi::emu::shared_array(&dpi_key, sizeof(T) * static_cast<size_t>(n)); \
  }())
#define __grid_constant__  // NOLINT(bugprone-reserved-identifier): CUDA's name

template <class... P, class... A>
int launch_native(void (*kernel)(P...), dim3 grid, dim3 block, Stream stream, const A&... args) {
  return dpi::emu::launch(kernel, grid, block, static_cast<dpi::emu::Stream*>(stream), args...);
}

template <class... P>
int find_code(void (*)(P...)) {
  return 0;
}

#endif

/// `code` of a call of the runtime. A failure is forgotten there, so that nobody finds it after a later call.
inline int told(int code) {
  if (code != 0) static_cast<void>(cudaGetLastError());
  return code;
}

/// Starts `kernel` and gives the code of this launch, whatever went wrong before it. An empty grid is no
/// launch.
template <class... P, class... A>
int launch(void (*kernel)(P...), dim3 grid, dim3 block, Stream stream, const A&... args) {
  if (grid.x == 0 || grid.y == 0) return 0;
  return told(launch_native(kernel, grid, block, stream, args...));
}

/// Blocks of `size` that cover n items, at most `limit` (kernels then step over the rest).
inline unsigned blocks_for(int64_t n, int64_t size, int64_t limit = 65535) {
  const int64_t blocks = (n + size - 1) / size;
  return static_cast<unsigned>(blocks < limit ? blocks : limit);
}

__device__ inline int64_t global_thread() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline int64_t total_threads() { return int64_t{gridDim.x} * blockDim.x; }

/// Sum over the 32 lanes of a full warp, the same in every lane.
__device__ inline float warp_sum(float v) {
  for (int step = kWarp / 2; step > 0; step /= 2) v += __shfl_xor_sync(kAllLanes, v, step);
  return v;
}

}  // namespace dpi::kernels::cuda
