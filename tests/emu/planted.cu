// Kernels with one fault each, and the same kernels without it: what the emulation must find.
// Compiled as C++ over kernels/emu only.
#include "emu/planted.hpp"

#include "kernels/cuda/common/async_copy.hpp"
#include "kernels/cuda/common/simt.hpp"

namespace dpi::test {
namespace {

using kernels::cuda::kAllLanes;
using kernels::cuda::launch;
using kernels::cuda::Stream;

/// Each thread hands its value to its right neighbour through shared memory. y: [blockDim.x].
__global__ void rotate_kernel(const float* x, float* y, Fault fault) {
  DPI_SHARED(float, values, 64);
  const unsigned i = threadIdx.x;
  values[fault == Fault::kSharedOverrun ? i + 1 : i] = x[i];
  if (fault != Fault::kMissingBarrier) __syncthreads();
  y[i] = values[(i + 1) % 64];
}

/// A barrier that only the first half reaches, and another for the rest.
__device__ void apart(float* y) {
  if (threadIdx.x < 32) {
    __syncthreads();
    y[threadIdx.x] = 1;
  } else {
    y[threadIdx.x] = 2;
    __syncthreads();
  }
}

__device__ void store_and_wait(float* y, float v) {
  y[threadIdx.x] = v;
  __syncthreads();
}

__global__ void divergent_kernel(float* y, Fault fault) {
  if (fault != Fault::kTwoCalls) return apart(y);
  if (threadIdx.x < 32) {
    store_and_wait(y, 1);
  } else {
    store_and_wait(y, 2);
  }
}

/// Sums 32 lanes; with a fault half of them have left, or name the other half.
__global__ void shuffle_kernel(const float* x, float* y, Fault fault) {
  const unsigned i = threadIdx.x;
  if (fault == Fault::kExitedLane && i >= 16) return;
  const unsigned mask = fault != Fault::kForeignMask ? kAllLanes : i < 16 ? 0xffff0000u : 0x0000ffffu;
  float v = x[i];
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(mask, v, step);
  y[i] = v;
}

__global__ void count_kernel(int* counter, Fault fault) {
  if (fault == Fault::kPlainAdd) {
    *counter += 1;
  } else {
    atomicAdd(counter, 1);
  }
}

__global__ void scale_kernel(const float* x, float* y, int n, Fault fault) {
  const int i = static_cast<int>(kernels::cuda::global_thread());
  const int limit = fault == Fault::kGlobalOverrun ? n + 1 : n;
  if (i < limit) y[i < n ? i : 0] = 2 * x[i];
}

/// No other test starts it.
__global__ void never_before_kernel(float* x) { x[threadIdx.x] = 3; }

/// 32 threads bring 256 floats through shared memory in two groups of asynchronous copies. With a fault they
/// wait for one group too few, or do not end the second.
__global__ void fetch_kernel(const float* x, float* y, Fault fault) {
  DPI_SHARED(float, values, 256);
  const unsigned at = threadIdx.x * 4;
  kernels::cuda::copy16_async(values + at, x + at, 16);
  kernels::cuda::end_copy_group();
  kernels::cuda::copy16_async(values + 128 + at, x + 128 + at, 16);
  if (fault != Fault::kOpenGroup) kernels::cuda::end_copy_group();
  if (fault == Fault::kShortWait) {
    kernels::cuda::wait_for_copies<1>();
  } else {
    kernels::cuda::wait_for_copies<0>();
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 256; i += 32) y[i] = values[255 - i];
}

/// Thread 0 of each block writes a word; with the fault they write the same one.
__global__ void mark_kernel(int* words, Fault fault) {
  if (threadIdx.x == 0) words[fault == Fault::kSharedWord ? 0 : blockIdx.x] = 1;
}

}  // namespace

int rotate(const float* x, float* y, Fault fault, void* stream) {
  return launch(rotate_kernel, dim3(1), dim3(64), stream, x, y, fault);
}
int divergent(float* y, Fault fault, void* stream) {
  return launch(divergent_kernel, dim3(1), dim3(64), stream, y, fault);
}
int shuffle(const float* x, float* y, Fault fault, void* stream) {
  return launch(shuffle_kernel, dim3(1), dim3(32), stream, x, y, fault);
}
int count(int* counter, Fault fault, void* stream) {
  return launch(count_kernel, dim3(2), dim3(33), stream, counter, fault);
}
int scale(const float* x, float* y, int n, Fault fault, void* stream) {
  return launch(scale_kernel, dim3(kernels::cuda::blocks_for(n + 1, 32)), dim3(32), stream, x, y, n, fault);
}

int never_before(float* x, void* stream) { return launch(never_before_kernel, dim3(1), dim3(64), stream, x); }

int fetch(const float* x, float* y, Fault fault, void* stream) {
  return launch(fetch_kernel, dim3(1), dim3(32), stream, x, y, fault);
}

int mark_blocks(int* words, Fault fault, void* stream) {
  return launch(mark_kernel, dim3(2), dim3(32), stream, words, fault);
}

}  // namespace dpi::test
