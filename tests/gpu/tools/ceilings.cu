#include "tests/gpu/tools/ceilings.hpp"

namespace dpi::gpu {
namespace {

using kernels::cuda::blocks_for;
using kernels::cuda::global_thread;
using kernels::cuda::launch;
using kernels::cuda::total_threads;

constexpr int kThreads = 256;
constexpr int kInFlight = 8;                     // loads of one thread before the first is used: 128 bytes
constexpr int64_t kBlocksPerMultiprocessor = 8;  // of kThreads: all that it holds

__global__ void __launch_bounds__(kThreads) copy_kernel(float4* dst, const float4* src, int64_t n) {
  for (int64_t i = global_thread(); i < n; i += total_threads()) dst[i] = src[i];
}

__device__ inline uint64_t mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Neighbouring threads read the vectors of one row.
__global__ void __launch_bounds__(kThreads) ceiling_gather_kernel(const GatherArgs a) {
  const auto* table = static_cast<const float4*>(a.table);
  const int64_t groups = total_threads() / a.vectors;
  const int64_t group = global_thread() / a.vectors, vector = global_thread() % a.vectors;
  if (group >= groups) return;
  float4 sum = {0, 0, 0, 0};
  for (int64_t base = group; base < a.count; base += groups * kInFlight) {
    float4 v[kInFlight];
    DPI_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      const uint64_t row =
          mixed((static_cast<uint64_t>(a.seed) << 40) + base + k * groups) % static_cast<uint64_t>(a.rows);
      v[k] = table[static_cast<int64_t>(row) * a.vectors + vector];
    }
    DPI_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      sum.x += v[k].x;
      sum.y += v[k].y;
      sum.z += v[k].z;
      sum.w += v[k].w;
    }
  }
  if (sum.x + sum.y + sum.z + sum.w == 1e30f) *static_cast<float4*>(a.sink) = sum;
}

// Neighbouring threads copy the vectors of one row; a thread has kInFlight of them under way.
__global__ void __launch_bounds__(kThreads) copy_rows_kernel(const LookupCeilingArgs a) {
  const auto* table = static_cast<const float4*>(a.table);
  auto* out = static_cast<float4*>(a.out);
  const int64_t n = a.count * a.vectors, step = total_threads();
  for (int64_t base = global_thread(); base < n; base += step * kInFlight) {
    float4 v[kInFlight];
    DPI_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t i = base + k * step;
      if (i < n) v[k] = table[int64_t{a.ids[i / a.vectors]} * a.vectors + i % a.vectors];
    }
    DPI_UNROLL
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t i = base + k * step;
      if (i < n) out[i] = v[k];
    }
  }
}

__global__ void nothing_kernel() {}

}  // namespace

int copy(void* dst, const void* src, int64_t n, int multiprocessors, kernels::cuda::Stream stream) {
  const dim3 grid(blocks_for(n, kThreads, kBlocksPerMultiprocessor * multiprocessors));
  return launch(copy_kernel, grid, dim3(kThreads), stream, static_cast<float4*>(dst),
                static_cast<const float4*>(src), n);
}

int gather(const GatherArgs& args, kernels::cuda::Stream stream) {
  const int64_t threads = args.count * args.vectors / kInFlight;
  const dim3 grid(blocks_for(threads, kThreads, kBlocksPerMultiprocessor * args.multiprocessors));
  return launch(ceiling_gather_kernel, grid, dim3(kThreads), stream, args);
}

int copy_rows(const LookupCeilingArgs& args, kernels::cuda::Stream stream) {
  const int64_t threads = args.count * args.vectors / kInFlight + 1;
  const dim3 grid(blocks_for(threads, kThreads, kBlocksPerMultiprocessor * args.multiprocessors));
  return launch(copy_rows_kernel, grid, dim3(kThreads), stream, args);
}

int nothing(kernels::cuda::Stream stream) { return launch(nothing_kernel, dim3(1), dim3(32), stream); }

}  // namespace dpi::gpu
