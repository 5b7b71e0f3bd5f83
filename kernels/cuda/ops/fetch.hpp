// Copies from host memory that the GPU can read in place. Called by the backend's fetch_in and place_rows.
//
// fetch: the packed input of a small batch. One kernel instead of a copy: it joins a graph, has no copy
// engine's start-up time, and takes only what the call uses. place: table rows while a model loads, from
// packed to the arena's stride; what lies between the rows (other tables' scalars) stays.
#pragma once

#include <cstdint>

#include "kernels/cuda/common/simt.hpp"

namespace dpi::kernels::cuda {

constexpr int kMaxFetchRanges = 96;

/// Bytes [offset, offset + bytes) of staging go to the same offsets of dst. count_at >= 0: at most
/// 4 * (the int32 at staging + count_at) of them. Offsets are multiples of 16; both buffers have 16 bytes
/// more than the last range's end, rounded up to 16.
struct FetchRange {
  int64_t offset;
  int64_t bytes;
  int64_t count_at;
};

/// staging: mapped host memory, dst: device memory; both 16-byte aligned, not overlapping.
struct FetchArgs {
  char* dst = nullptr;
  const char* staging = nullptr;
  int32_t n_ranges = 0;
  FetchRange ranges[kMaxFetchRanges] = {};
};

/// Starts the copy on `stream`; the native code of the launch.
int fetch(const FetchArgs& args, Stream stream);

/// rows: [n_rows, row_bytes] packed in mapped host memory; row r goes to dst + r * stride (device memory).
int place(char* dst, int64_t stride, const char* rows, int64_t row_bytes, int64_t n_rows, Stream stream);

}  // namespace dpi::kernels::cuda
