// The order in which the fused lookup takes long bags: rows by the length of their bag, longest first, so
// that the groups of a warp end together and the long bags do not come last. A stable sort by CUB; without
// nvcc a plain kernel that counts what goes before each row and gives the same order. The order moves work
// between warps, never a bit of a result.
#include "kernels/cuda/lookup/launch.hpp"

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#endif

namespace dpi::kernels::cuda {
namespace {

constexpr int32_t kLongest = 1023;  // longer bags are as long
constexpr int kKeyBits = 10;
constexpr size_t kAlign = 256;

/// Ascending keys are descending lengths, field by field.
__device__ inline uint32_t bag_key(const int32_t* offsets, int32_t field, int64_t row) {
  const int32_t n = offsets[row + 1] - offsets[row];
  const int32_t length = n < 0 ? 0 : n > kLongest ? kLongest : n;
  return static_cast<uint32_t>(field) << kKeyBits | static_cast<uint32_t>(kLongest - length);
}

size_t rounded(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

#ifdef __CUDACC__

int bits_for(int32_t fields) {
  int bits = kKeyBits;
  while ((1 << (bits - kKeyBits)) < fields) ++bits;
  return bits;
}

size_t cub_bytes(int64_t items, int bits) {
  size_t bytes = 0;
  const uint32_t* keys = nullptr;
  const int32_t* rows = nullptr;
  const cudaError_t code = cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, const_cast<uint32_t*>(keys),
                                                           rows, const_cast<int32_t*>(rows), items, 0, bits);
  if (told(static_cast<int>(code)) == 0) return bytes > 0 ? bytes : 1;
  return 0;
}

__global__ void __launch_bounds__(256) bag_key_kernel(const BagOrder b, uint32_t* keys, int32_t* rows) {
  const int64_t i = global_thread();
  if (i >= b.rows * b.fields) return;
  const auto field = static_cast<int32_t>(i / b.rows);
  const int64_t row = i - field * b.rows;
  keys[i] = bag_key(b.offsets[field], field, row);
  rows[i] = static_cast<int32_t>(row);
}

#else

__global__ void bag_order_kernel(const BagOrder b, int32_t* order) {
  const int64_t i = global_thread();
  if (i >= b.rows * b.fields) return;
  const auto field = static_cast<int32_t>(i / b.rows);
  const int64_t row = i - field * b.rows;
  const uint32_t key = bag_key(b.offsets[field], field, row);
  int64_t before = 0;
  for (int64_t other = 0; other < b.rows; ++other) {
    const uint32_t theirs = bag_key(b.offsets[field], field, other);
    before += theirs < key || (theirs == key && other < row) ? 1 : 0;
  }
  order[field * b.rows + before] = static_cast<int32_t>(row);
}

#endif

}  // namespace

#ifdef __CUDACC__

size_t bag_order_bytes(int32_t fields, int64_t rows) {
  const int64_t items = fields * rows;
  const size_t own = cub_bytes(items, bits_for(fields));
  return own == 0 ? 0 : 4 * rounded(static_cast<size_t>(items) * 4) + rounded(own);
}

int start_bag_order(const BagOrder& b, void* scratch, Stream stream) {
  const int64_t items = b.fields * b.rows;
  const size_t array = rounded(static_cast<size_t>(items) * 4);
  char* at = static_cast<char*>(scratch);
  auto* order = reinterpret_cast<int32_t*>(at);
  auto* rows = reinterpret_cast<int32_t*>(at + array);
  auto* keys = reinterpret_cast<uint32_t*>(at + 2 * array);
  auto* sorted = reinterpret_cast<uint32_t*>(at + 3 * array);
  const int bits = bits_for(b.fields);
  size_t own = cub_bytes(items, bits);
  const dim3 grid(blocks_for(items, 256, 0x7fffffff));
  if (const int code = launch(bag_key_kernel, grid, dim3(256), stream, b, keys, rows); code != 0) return code;
  return told(static_cast<int>(cub::DeviceRadixSort::SortPairs(
      at + 4 * array, own, keys, sorted, rows, order, items, 0, bits, static_cast<cudaStream_t>(stream))));
}

#else

size_t bag_order_bytes(int32_t fields, int64_t rows) {
  return rounded(static_cast<size_t>(fields * rows) * sizeof(int32_t));
}

int start_bag_order(const BagOrder& b, void* scratch, Stream stream) {
  const dim3 grid(blocks_for(b.fields * b.rows, 256, 0x7fffffff));
  return launch(bag_order_kernel, grid, dim3(256), stream, b, static_cast<int32_t*>(scratch));
}

#endif

}  // namespace dpi::kernels::cuda
