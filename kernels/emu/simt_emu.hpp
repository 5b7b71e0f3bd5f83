// CUDA's device vocabulary for an ordinary C++ compiler: one fibre per CUDA thread, one block after another.
// Tests only, never installed. Kernels include it through kernels/cuda/common/simt.hpp; the emulated device
// of the backend drives the host side at the end of this file.
//
// The runtime, simt_emu.cpp, is compiled without sanitizers; kernels and tests are compiled with them. Under
// TSan each CUDA thread is a TSan fibre and switching orders nothing: only barriers, launches, events and
// synchronisation do. A fault of a kernel (divergent barrier, wrong mask) ends its launch with an error text.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/emu/device_emu.hpp"

struct alignas(16) float4 {
  float x, y, z, w;
};

namespace dpi::emu {

struct Site {
  const char* file;
  int line;
};

// ---- what kernels call, on a fibre

/// frame: of the calling function, where code is not optimised (else null): two call sites of one function
/// with a barrier are told apart by it. Optimised code has several copies of one call, so it cannot tell.
void block_sync(Site at, const void* frame);
/// The outermost frame of a thread that block_sync looks at; null = it does not.
void enter_kernel(const void* frame);
void warp_sync(unsigned mask, Site at);
/// The value that lane `source` of this warp brought to the same operation. Orders no memory.
uint64_t exchange_bits(unsigned mask, uint64_t value, int source, const char* op, Site at);
/// The block's array of one declaration (`key`): NaN at first, 64 poisoned bytes around it under ASan.
void* shared_array(const void* key, size_t bytes);

/// Asynchronous copies of the calling thread (kernels/cuda/common/async_copy.hpp makes them, so that the
/// accesses are the kernel's own). take_copy: the oldest that belongs to a group before the last `pending`
/// groups that were ended; false = none is left.
struct QueuedCopy {
  void* to;
  const void* from;
  int bytes;
};
void queue_copy(const QueuedCopy& c);
void end_copy_group();
bool take_copy(unsigned pending, QueuedCopy* out);

dim3 thread_index();
dim3 block_index();
dim3 block_size();
dim3 grid_size();
int lane();

// ---- what the host calls; more in device_emu.hpp

#ifdef __OPTIMIZE__
#define DPI_EMU_FRAME nullptr
#else
#define DPI_EMU_FRAME __builtin_frame_address(0)
#endif

template <class... P, class... A>
int launch(void (*kernel)(P...), dim3 grid, dim3 block, Stream* s, A... args) {
  const Own own;
  return launch_body(reinterpret_cast<const void*>(kernel), grid, block, s, new Body([=] {
                       enter_kernel(DPI_EMU_FRAME);
                       kernel(args...);
                     }));
}

template <class T>
T exchange(unsigned mask, T value, int source, const char* op, Site at) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange_bits(mask, bits, source, op, at);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace dpi::emu

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

#define threadIdx (dpi::emu::thread_index())
#define blockIdx (dpi::emu::block_index())
#define blockDim (dpi::emu::block_size())
#define gridDim (dpi::emu::grid_size())
#define __syncthreads() dpi::emu::block_sync({__FILE__, __LINE__}, DPI_EMU_FRAME)

inline void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
  dpi::emu::warp_sync(mask, {file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int = 32, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  return dpi::emu::exchange(mask, value, dpi::emu::lane() ^ lane_mask, "__shfl_xor_sync", {file, line});
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int = 32, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  return dpi::emu::exchange(mask, value, source, "__shfl_sync", {file, line});
}

// Relaxed, as on the device: two atomics never race, an atomic and a plain access do.
inline int atomicAdd(int* p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline int atomicCAS(int* p, int expected, int v) {
  __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
inline unsigned atomicOr(unsigned* p, unsigned v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) {
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
inline unsigned long long atomicMin(unsigned long long* p, unsigned long long v) {
  unsigned long long old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (old > v && !__atomic_compare_exchange_n(p, &old, v, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
/// Host functions, as CUDA has them.
inline int cudaGetLastError() { return dpi::emu::take_last_code(); }
inline int cudaPeekAtLastError() { return dpi::emu::peek_last_code(); }

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
// NOLINTEND(bugprone-reserved-identifier)
