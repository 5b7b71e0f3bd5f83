// Linear + bias + activation, times a tensor, plus a residual: a tiled float32 matrix product whose epilogue
// does the rest before anything is stored. The plain twin of what a vendor library may do: it defines the
// result.
#include "kernels/cuda/common/dense_end.hpp"
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/gemm/gemm.hpp"
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
  TypedRows x;
  const float* weight;
  int64_t weight_stride;
  int64_t in;
  DenseEnd end;
};

/// Elements [first + 0 .. 63, begin + 0 .. 15] of a row-major matrix into tile[k][m]; 0 outside.
__device__ void load_tile(const TypedRows& from, int64_t first, int64_t limit, int64_t begin, int64_t depth,
                          float* tile) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
    const int k = i % kDepth;
    const int m = i / kDepth;
    const bool inside = first + m < limit && begin + k < depth;
    tile[k * kPitch + m] =
        inside ? read_element(from.data, from.dtype, (first + m) * from.stride + begin + k) : 0.0f;
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

__global__ void __launch_bounds__(kThreads) dense_kernel(const Dense d) {
  DPI_SHARED(float, a, kDepth* kPitch);
  DPI_SHARED(float, b, kDepth* kPitch);
  const TypedRows weight = {const_cast<float*>(d.weight), d.weight_stride, DType::kF32};
  const int64_t first_row = int64_t{blockIdx.x} * kTile;
  const int64_t first_column = int64_t{blockIdx.y} * kTile;
  const int row = static_cast<int>(threadIdx.x) / 16 * kThreadRows;
  const int column = static_cast<int>(threadIdx.x) % 16 * kThreadColumns;
  float sum[kThreadRows][kThreadColumns] = {};
  for (int64_t begin = 0; begin < d.in; begin += kDepth) {
    load_tile(d.x, first_row, d.end.rows, begin, d.in, a);
    load_tile(weight, first_column, d.end.out, begin, d.in, b);
    __syncthreads();
    multiply(a, b, row, column, sum);
    __syncthreads();
  }
  DPI_UNROLL
  for (int j = 0; j < kThreadColumns; ++j) {
    const int64_t c = first_column + column + j;
    if (c >= d.end.out) continue;
    const ColumnEnd end = column_end(d.end, c);
    DPI_UNROLL
    for (int i = 0; i < kThreadRows; ++i) {
      const int64_t r = first_row + row + i;
      if (r < d.end.rows) finish(d.end, end, r, c, sum[i][j]);
    }
  }
}

}  // namespace

int probe() { return find_code(dense_kernel); }

int dense(const DenseArgs& a, Stream stream) {
  Dense d = {};
  d.x = typed_rows(a.x);
  d.in = a.weight.dims.at(-1);
  d.weight = a.packed != nullptr ? static_cast<const float*>(a.packed) : a.weight.data;
  d.weight_stride = a.packed != nullptr ? packed_depth(d.in) : d.in;
  d.end = dense_end(a);
  const dim3 grid(blocks_for(d.end.rows, kTile, 0x7fffffff), blocks_for(d.end.out, kTile));
  return launch(dense_kernel, grid, dim3(kThreads), stream, d);
}

}  // namespace dpi::kernels::cuda
