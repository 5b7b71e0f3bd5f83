// Order along an axis, and entries by their place in it.
#include <dpi/kernels/gather.hpp>
#include <dpi/kernels/top_k.hpp>

#include "kernels/cuda/common/index.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int64_t kMaxBlocks = 8192;  // the rest is walked over

dim3 grid_for(const Tensor& t, int64_t rows) {
  return dim3(blocks_for(rows * t.dims.size(), kThreads, kMaxBlocks));
}

/// One thread per entry of x: it counts those before it, which is the entry's place. Nothing is sorted, and
/// threads of one slice read the same elements.
__global__ void __launch_bounds__(kThreads) top_k_kernel(const TopKArgs a, const AxisView v) {
  const int64_t size = v.outer * v.n * v.inner;
  for (int64_t flat = global_thread(); flat < a.dst.rows * size; flat += total_threads()) {
    const int64_t b = flat % v.inner;
    const int64_t i = flat / v.inner % v.n;
    const int64_t o = flat % size / (v.inner * v.n);
    const float* slice = row_of(a.x, flat / size) + o * v.n * v.inner + b;
    const float own = slice[i * v.inner];
    int64_t place = 0;
    for (int64_t j = 0; j < v.n && place < a.attrs.k; ++j)
      place += comes_before(a.attrs, slice[j * v.inner], j, own, i) ? 1 : 0;
    if (place < a.attrs.k)
      row_of(a.dst, flat / size)[(o * a.attrs.k + place) * v.inner + b] = static_cast<float>(i);
  }
}

__global__ void __launch_bounds__(kThreads) gather_kernel(const GatherArgs a) {
  const Dims& dims = a.dst.dims;
  const int64_t size = size_of(dims);
  for (int64_t flat = global_thread(); flat < a.dst.rows * size; flat += total_threads()) {
    const int64_t r = flat / size;
    const int64_t i = flat % size;
    const float position = row_of(a.index, r)[broadcast_offset(dims, i, a.index.dims)];
    const int64_t entry = entry_of(position, a.x.dims.d[a.attrs.axis]);
    row_of(a.dst, r)[i] =
        entry < 0 ? position : row_of(a.x, r)[gathered_offset(dims, i, a.x.dims, a.attrs.axis, entry)];
  }
}

}  // namespace

int top_k(const TopKArgs& a, void* stream) {
  return launch(top_k_kernel, grid_for(a.x, a.dst.rows), dim3(kThreads), stream, a,
                AxisView(a.x.dims, a.attrs.axis));
}

int gather(const GatherArgs& a, void* stream) {
  return launch(gather_kernel, grid_for(a.dst, a.dst.rows), dim3(kThreads), stream, a);
}

}  // namespace dpi::kernels::cuda
