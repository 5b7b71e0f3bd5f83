#include "kernels/cuda/ops/fetch.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kVector = 16;
constexpr int64_t kMaxBlocks = 256;  // half a megabyte of a range on its way at once

// A block copies kThreads vectors of one range: all loads of a range are on the bus at the same time.
__global__ void __launch_bounds__(kThreads) fetch_kernel(const FetchArgs a) {
  const FetchRange range = a.ranges[blockIdx.y];
  int64_t bytes = range.bytes;
  if (range.count_at >= 0) {
    const int64_t count = *reinterpret_cast<const int32_t*>(a.staging + range.count_at);
    bytes = count < 0 ? 0 : (4 * count < bytes ? 4 * count : bytes);
  }
  const int64_t vectors = (bytes + kVector - 1) / kVector;
  const auto* src = reinterpret_cast<const float4*>(a.staging + range.offset);
  auto* dst = reinterpret_cast<float4*>(a.dst + range.offset);
  for (int64_t i = global_thread(); i < vectors; i += total_threads()) dst[i] = src[i];
}

/// Words of type T; reads are consecutive, so the bus carries full lines.
template <class T>
__global__ void __launch_bounds__(kThreads)
    place_kernel(char* dst, int64_t stride, const char* rows, int64_t words, int64_t total) {
  for (int64_t i = global_thread(); i < total; i += total_threads()) {
    const int64_t row = i / words;
    const auto value = reinterpret_cast<const T*>(rows)[i];
    reinterpret_cast<T*>(dst + row * stride)[i - row * words] = value;
  }
}

template <class T>
int place_words(char* dst, int64_t stride, const char* rows, int64_t row_bytes, int64_t n_rows,
                Stream stream) {
  constexpr int64_t kSize = sizeof(T);
  const int64_t words = row_bytes / kSize;
  const dim3 grid(blocks_for(words * n_rows, kThreads, 2048));
  return launch(place_kernel<T>, grid, dim3(kThreads), stream, dst, stride, rows, words, words * n_rows);
}

bool all_multiples(int64_t size, const char* dst, int64_t stride, int64_t row_bytes) {
  return reinterpret_cast<uintptr_t>(dst) % size == 0 && stride % size == 0 && row_bytes % size == 0;
}

}  // namespace

int place(char* dst, int64_t stride, const char* rows, int64_t row_bytes, int64_t n_rows, Stream stream) {
  if (all_multiples(16, dst, stride, row_bytes))
    return place_words<float4>(dst, stride, rows, row_bytes, n_rows, stream);
  if (all_multiples(4, dst, stride, row_bytes))
    return place_words<uint32_t>(dst, stride, rows, row_bytes, n_rows, stream);
  return place_words<uint8_t>(dst, stride, rows, row_bytes, n_rows, stream);
}

int fetch(const FetchArgs& a, Stream stream) {
  int64_t most = 0;
  for (int32_t i = 0; i < a.n_ranges; ++i) most = a.ranges[i].bytes > most ? a.ranges[i].bytes : most;
  const unsigned x = blocks_for(most, kThreads * kVector, kMaxBlocks);
  return launch(fetch_kernel, dim3(x, static_cast<unsigned>(a.n_ranges)), dim3(kThreads), stream, a);
}

}  // namespace dpi::kernels::cuda
