#include "kernels/cuda/lookup/row_cache.hpp"

#include "kernels/cuda/common/loads.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kMaxBlocks = 4;

/// A warp per row, words of type T.
template <class T>
__global__ void __launch_bounds__(kThreads)
    cache_rows_kernel(char* lines, const char* rows, int64_t row_bytes, const CacheChange* changes,
                      int32_t n) {
  const auto lane = static_cast<int32_t>(threadIdx.x) % kWarp;
  const int64_t words = row_bytes / static_cast<int64_t>(sizeof(T));
  for (int64_t i = global_thread() / kWarp; i < n; i += total_threads() / kWarp) {
    const CacheChange c = changes[i];
    if (c.tag == 0) continue;
    const auto* from = reinterpret_cast<const T*>(rows + int64_t{c.tag - 1} * row_bytes);
    auto* to = reinterpret_cast<T*>(lines + int64_t{c.line} * row_bytes);
    for (int64_t k = lane; k < words; k += kWarp) to[k] = from[k];
  }
}

__global__ void __launch_bounds__(kThreads)
    cache_tags_kernel(uint32_t* tags, const CacheChange* changes, int32_t n) {
  for (int64_t i = global_thread(); i < n; i += total_threads())
    store_tag(tags + changes[i].line, changes[i].tag);
}

}  // namespace

int copy_cache_rows(char* lines, const char* rows, int64_t row_bytes, const CacheChange* changes, int32_t n,
                    Stream stream) {
  const dim3 grid(blocks_for(int64_t{n} * kWarp, kThreads, kMaxBlocks));
  const auto all = reinterpret_cast<uintptr_t>(lines) | reinterpret_cast<uintptr_t>(rows) |
                   static_cast<uintptr_t>(row_bytes);
  if (all % 16 == 0)
    return launch(cache_rows_kernel<float4>, grid, dim3(kThreads), stream, lines, rows, row_bytes, changes,
                  n);
  return launch(cache_rows_kernel<uint32_t>, grid, dim3(kThreads), stream, lines, rows, row_bytes, changes,
                n);
}

int set_cache_tags(uint32_t* tags, const CacheChange* changes, int32_t n, Stream stream) {
  const dim3 grid(blocks_for(n, kThreads, kMaxBlocks));
  return launch(cache_tags_kernel, grid, dim3(kThreads), stream, tags, changes, n);
}

}  // namespace dpi::kernels::cuda
