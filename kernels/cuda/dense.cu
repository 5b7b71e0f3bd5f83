// Linear + bias + activation, times a tensor, plus a residual: a tiled float32 matrix product whose epilogue
// does the rest before anything is stored. The plain twin of what a vendor library may do: it defines the
// result.
#include "kernels/cuda/common/apply.hpp"
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/kernels.hpp"

namespace dpi::kernels::cuda {
namespace {

// A block of 128 threads makes 64 x 64 outputs in steps of 16 along the depth; a thread 8 rows x 4 columns.
constexpr int kTile = 64;
constexpr int kDepth = 16;
constexpr int kPitch = kTile + 4;  // spreads the transposed stores over the banks
constexpr int kThreadRows = 8;
constexpr int kThreadColumns = 4;

struct Dense {
  const float* x;
  const float* weight;
  const float* bias;
  const float* mul;
  const float* add;
  float* dst;
  int64_t x_stride;
  int64_t mul_stride;
  int64_t add_stride;
  int64_t dst_stride;
  int64_t rows;
  int64_t in;
  int64_t out;
  const DenseSegment* segments;
  int32_t n_segments;
  ChannelArrays channels;
};

/// Elements [first + 0 .. 63, begin + 0 .. 15] of a row-major matrix into tile[k][m]; 0 outside.
__device__ void load_tile(const float* data, int64_t stride, int64_t first, int64_t limit, int64_t begin,
                          int64_t depth, float* tile) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
    const int k = i % kDepth;
    const int m = i / kDepth;
    const bool inside = first + m < limit && begin + k < depth;
    tile[k * kPitch + m] = inside ? data[(first + m) * stride + begin + k] : 0.0f;
  }
}

__device__ void multiply(const float* a, const float* b, int row, int column,
                         float (&sum)[kThreadRows][kThreadColumns]) {
  DPI_UNROLL
  for (int k = 0; k < kDepth; ++k) {
    float x[kThreadRows];
    float w[kThreadColumns];
    DPI_UNROLL
    for (int i = 0; i < kThreadRows; ++i) x[i] = a[k * kPitch + row + i];
    DPI_UNROLL
    for (int j = 0; j < kThreadColumns; ++j) w[j] = b[k * kPitch + column + j];
    DPI_UNROLL
    for (int i = 0; i < kThreadRows; ++i) {
      DPI_UNROLL
      for (int j = 0; j < kThreadColumns; ++j) sum[i][j] = fmaf(x[i], w[j], sum[i][j]);
    }
  }
}

__device__ UnaryAttrs activation_of(const Dense& d, int64_t column) {
  for (int32_t s = 0; s < d.n_segments; ++s) {
    if (column < d.segments[s].end) return d.segments[s].act;
  }
  return {};
}

/// dst may be add: each element is read by the thread that writes it.
__device__ void finish(const Dense& d, int64_t row, int64_t column, float sum, const UnaryAttrs& act,
                       const Channel& channel) {
  float y = apply_unary(act, sum + (d.bias != nullptr ? d.bias[column] : 0.0f), channel);
  if (d.mul != nullptr) y *= d.mul[row * d.mul_stride + column];
  if (d.add != nullptr) y += d.add[row * d.add_stride + column];
  d.dst[row * d.dst_stride + column] = y;
}

__global__ void __launch_bounds__(kThreads) dense_kernel(const Dense d) {
  DPI_SHARED(float, a, kDepth* kPitch);
  DPI_SHARED(float, b, kDepth* kPitch);
  const int64_t first_row = int64_t{blockIdx.x} * kTile;
  const int64_t first_column = int64_t{blockIdx.y} * kTile;
  const int row = static_cast<int>(threadIdx.x) / 16 * kThreadRows;
  const int column = static_cast<int>(threadIdx.x) % 16 * kThreadColumns;
  float sum[kThreadRows][kThreadColumns] = {};
  for (int64_t begin = 0; begin < d.in; begin += kDepth) {
    load_tile(d.x, d.x_stride, first_row, d.rows, begin, d.in, a);
    load_tile(d.weight, d.in, first_column, d.out, begin, d.in, b);
    __syncthreads();
    multiply(a, b, row, column, sum);
    __syncthreads();
  }
  DPI_UNROLL
  for (int j = 0; j < kThreadColumns; ++j) {
    const int64_t c = first_column + column + j;
    if (c >= d.out) continue;
    const UnaryAttrs act = activation_of(d, c);
    const Channel channel = channel_at(d.channels, c);
    DPI_UNROLL
    for (int i = 0; i < kThreadRows; ++i) {
      const int64_t r = first_row + row + i;
      if (r < d.rows) finish(d, r, c, sum[i][j], act, channel);
    }
  }
}

}  // namespace

int probe() { return find_code(dense_kernel); }

int dense(const DenseArgs& a, Stream stream) {
  Dense d = {};
  d.x = a.x.data;
  d.weight = a.weight.data;
  d.bias = a.bias.data;
  d.mul = a.mul.data;
  d.add = a.add.data;
  d.dst = a.dst.data;
  d.x_stride = a.x.row_stride;
  d.mul_stride = a.mul.row_stride;
  d.add_stride = a.add.row_stride;
  d.dst_stride = a.dst.row_stride;
  d.rows = a.dst.rows;
  d.in = a.weight.dims.at(-1);
  d.out = a.dst.dims.size();
  d.segments = a.attrs.segments;
  d.n_segments = a.attrs.n_segments;
  d.channels = channel_arrays(a.p0, a.p1, a.p2);
  const dim3 grid(blocks_for(d.rows, kTile, 0x7fffffff), blocks_for(d.out, kTile));
  return launch(dense_kernel, grid, dim3(kThreads), stream, d);
}

}  // namespace dpi::kernels::cuda
