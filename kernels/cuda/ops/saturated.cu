// How many elements of a 16-bit value lie at the end of their type's range, where what was finite and beyond
// it ends, or are infinite, as a library's product leaves them. For calls that are watched (option
// debug.timestamps), never on the way of others.
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/kernels.hpp"

namespace dpi::kernels::cuda {
namespace {

struct Watched {
  const uint16_t* data;
  int64_t width, stride, rows;
  uint32_t largest;  // bits of the last finite value
  unsigned long long* count;
};

/// A thread walks over elements, a warp adds once.
__global__ void __launch_bounds__(kThreads) count_saturated_kernel(const Watched w) {
  int found = 0;
  for (int64_t i = global_thread(); i < w.rows * w.width; i += total_threads()) {
    const uint32_t bits = w.data[i / w.width * w.stride + i % w.width];
    found += (bits & 0x7fffu) - w.largest <= 1u ? 1 : 0;
  }
  for (int step = kWarp / 2; step > 0; step /= 2) found += __shfl_xor_sync(kAllLanes, found, step);
  if (found != 0 && threadIdx.x % kWarp == 0) atomicAdd(w.count, static_cast<unsigned long long>(found));
}

}  // namespace

int count_saturated(const Tensor& t, uint64_t* count, Stream stream) {
  if (t.dtype != DType::kF16 && t.dtype != DType::kBF16) return 0;
  Watched w = {};
  w.data = reinterpret_cast<const uint16_t*>(t.data);
  w.width = t.dims.size();
  w.stride = t.row_stride;
  w.rows = t.rows;
  w.largest = t.dtype == DType::kF16 ? 0x7bffu : 0x7f7fu;
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
  w.count = reinterpret_cast<unsigned long long*>(count);
  constexpr int64_t kMostBlocks = 1024;
  return launch(count_saturated_kernel, dim3(blocks_for(w.rows * w.width, kThreads, kMostBlocks)),
                dim3(kThreads), stream, w);
}

}  // namespace dpi::kernels::cuda
