// What runs before and after a product that a vendor library computes: x converted to the element type, or
// split into the three tf32 operands of 3xTF32, and what of a Dense op's end no library fuses.
#include "kernels/cuda/common/dense_end.hpp"
#include "kernels/cuda/common/index.hpp"
#include "kernels/cuda/gemm/gemm.hpp"

namespace dpi::kernels::cuda {
namespace {

constexpr int64_t kMaxRowBlocks = 4096;  // the rest is walked over

/// A block has 128 columns and every gridDim.y-th row.
__device__ int64_t column_index() { return int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
dim3 column_grid(int64_t columns, int64_t rows) {
  return dim3(blocks_for(columns, kThreads, 0x7fffffff), blocks_for(rows, 1, kMaxRowBlocks));
}

__global__ void __launch_bounds__(kThreads)
    split_rows_kernel(const TypedRows x, int64_t n, int64_t rows, int64_t slabs, int64_t depth, float* to) {
  const int64_t c = column_index();
  if (c >= slabs * depth) return;
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const float v = c < n ? read_element(x.data, x.dtype, r * x.stride + c) : 0.0f;
    const float high = tf32_of(v);
    float* row = to + (r * slabs + c / depth) * 3 * depth + c % depth;
    row[0] = tf32_of(v - high);
    row[depth] = high;
    row[2 * depth] = high;
  }
}

__global__ void __launch_bounds__(kThreads)
    convert_rows_kernel(const TypedRows x, int64_t n, int64_t rows, const TypedRows to) {
  const int64_t c = column_index();
  if (c >= to.stride) return;
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const float v = c < n ? read_element(x.data, x.dtype, r * x.stride + c) : 0.0f;
    write_element(to.data, to.dtype, r * to.stride + c, v);
  }
}

/// `sums` may be dst: each element is read by the thread that writes it.
__global__ void __launch_bounds__(kThreads)
    finish_dense_kernel(const DenseEnd e, const float* sums, int64_t stride) {
  const int64_t c = column_index();
  if (c >= e.out) return;
  const ColumnEnd end = column_end(e, c);
  for (int64_t r = blockIdx.y; r < e.rows; r += gridDim.y) finish(e, end, r, c, sums[r * stride + c]);
}

}  // namespace

int split_rows(const Tensor& x, float* to, int64_t slabs, Stream stream) {
  const int64_t n = x.dims.size();
  const int64_t depth = split_depth(n, slabs);
  return launch(split_rows_kernel, column_grid(slabs * depth, x.rows), dim3(kThreads), stream, typed_rows(x),
                n, x.rows, slabs, depth, to);
}

int convert_rows(const Tensor& x, void* to, DType type, int64_t stride, Stream stream) {
  return launch(convert_rows_kernel, column_grid(stride, x.rows), dim3(kThreads), stream, typed_rows(x),
                x.dims.size(), x.rows, TypedRows{to, stride, type});
}

int finish_dense(const DenseArgs& a, const float* sums, int64_t stride, Stream stream) {
  const DenseEnd e = dense_end(a);
  return launch(finish_dense_kernel, column_grid(e.out, e.rows), dim3(kThreads), stream, e, sums, stride);
}

}  // namespace dpi::kernels::cuda
