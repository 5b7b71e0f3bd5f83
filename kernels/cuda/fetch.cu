#include "kernels/cuda/fetch.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int64_t kVector = 16;
constexpr int64_t kMaxBlocks = 64;

// One block per part and step of kThreads vectors: every load of a part crosses the bus at once.
__global__ void __launch_bounds__(kThreads) fetch_kernel(const FetchArgs a) {
  const FetchPart part = a.parts[blockIdx.y];
  int64_t bytes = part.bytes;
  if (part.count_at >= 0) {
    const int64_t count = *reinterpret_cast<const int32_t*>(a.staging + part.count_at);
    bytes = count < 0 ? 0 : (4 * count < bytes ? 4 * count : bytes);
  }
  const int64_t vectors = (bytes + kVector - 1) / kVector;
  const auto* src = reinterpret_cast<const float4*>(a.staging + part.offset);
  auto* dst = reinterpret_cast<float4*>(a.dst + part.offset);
  for (int64_t i = global_thread(); i < vectors; i += total_threads()) dst[i] = src[i];
}

}  // namespace

int fetch(const FetchArgs& a, Stream stream) {
  int64_t most = 0;
  for (int32_t i = 0; i < a.n_parts; ++i) most = a.parts[i].bytes > most ? a.parts[i].bytes : most;
  const unsigned x = blocks_for(most, kThreads * kVector, kMaxBlocks);
  return launch(fetch_kernel, dim3(x, static_cast<unsigned>(a.n_parts)), dim3(kThreads), stream, a);
}

}  // namespace dpi::kernels::cuda
