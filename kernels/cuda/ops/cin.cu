// Cin: a thread per element of some rows' vectors and kMaps maps of it. A block's threads have the same maps:
// their weights come through shared memory, some pairs at a time, and each product of two fields is made once
// for all of the maps.
#include <dpi/kernels/cin.hpp>

#include "kernels/cuda/common/apply.hpp"
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/kernels.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int kMaps = 8;
constexpr int kPairs = 64;  // whose weights lie in shared memory, and whose sum is one block of the whole

/// Weights of pairs [begin, begin + kPairs) and of the block's maps, pair by pair; zeros beyond both.
__device__ void load_weights(const CinArgs& a, int64_t pairs, int64_t first_map, int64_t begin, float* w) {
  const int64_t out = a.dst.dims.d[a.dst.dims.rank - 2];
  for (int e = static_cast<int>(threadIdx.x); e < kMaps * kPairs; e += kThreads) {
    const int64_t pair = begin + e % kPairs, map = first_map + e / kPairs;
    w[e % kPairs * kMaps + e / kPairs] = pair < pairs && map < out ? a.weight.data[map * pairs + pair] : 0.0f;
  }
}

/// Which fields a thread's next pair has; x, y: its element of their first ones.
struct Fields {
  const float* x;
  const float* y;
  int64_t dim, n;
  bool with_itself;
  int64_t i = 0, j = 0;

  __device__ float product() {
    const float p = x[i * dim] * y[j * dim];
    if (++j < n) return p;
    ++i;
    j = with_itself ? i : 0;
    return p;
  }
};

__device__ void finish(const CinArgs& a, int64_t r, int64_t d, int64_t first_map, const float (&sum)[kMaps]) {
  const int64_t out = a.dst.dims.d[a.dst.dims.rank - 2], dim = a.dst.dims.d[a.dst.dims.rank - 1];
  DPI_UNROLL
  for (int k = 0; k < kMaps; ++k) {  // all indices are constants: the sums stay in registers
    if (first_map + k >= out) return;
    const float bias = a.bias.data == nullptr ? 0.0f : a.bias.data[first_map + k];
    row_of(a.dst, r)[(first_map + k) * dim + d] = apply_unary(a.attrs.act, sum[k] + bias, {});
  }
}

__global__ void __launch_bounds__(kThreads) cin_kernel(const CinArgs a, int64_t n, int64_t pairs) {
  DPI_SHARED(float, w, kMaps* kPairs);
  const int64_t dim = a.dst.dims.d[a.dst.dims.rank - 1], first_map = int64_t{blockIdx.y} * kMaps;
  const int64_t at = global_thread(), r = at / dim, d = at % dim;
  const bool mine = r < a.dst.rows;
  const bool with_itself = a.y.data == nullptr;
  Fields fields{nullptr, nullptr, dim, n, with_itself};
  if (mine) {
    fields.x = row_of(a.x, r) + d;
    fields.y = with_itself ? fields.x : row_of(a.y, r) + d;
  }
  float total[kMaps] = {};
  for (int64_t begin = 0; begin < pairs; begin += kPairs) {
    __syncthreads();  // the weights before have been read
    load_weights(a, pairs, first_map, begin, w);
    __syncthreads();
    float sum[kMaps] = {};
    for (int p = 0; mine && p < kPairs && begin + p < pairs; ++p) {
      const float z = fields.product();
      DPI_UNROLL
      for (int k = 0; k < kMaps; ++k) sum[k] = fmaf(w[p * kMaps + k], z, sum[k]);
    }
    DPI_UNROLL
    for (int k = 0; k < kMaps; ++k) total[k] += sum[k];
  }
  if (mine) finish(a, r, d, first_map, total);
}

}  // namespace

int cin(const CinArgs& a, Stream stream) {
  const int64_t dim = a.dst.dims.at(-1), out = a.dst.dims.at(-2);
  if (dim * out == 0) return 0;
  const bool with_itself = a.y.data == nullptr;
  const int64_t m = a.x.dims.size() / dim, n = with_itself ? m : a.y.dims.size() / dim;
  const dim3 grid(blocks_for(a.dst.rows * dim, kThreads, 0x7fffffff), blocks_for(out, kMaps));
  return launch(cin_kernel, grid, dim3(kThreads), stream, a, n, cin_pairs(m, n, with_itself));
}

}  // namespace dpi::kernels::cuda
