// The kernels of gpu_ceilings (ceilings.cu). Pointers are device memory, 16-byte aligned, unless said
// otherwise.
#pragma once

#include <cstdint>

#include "kernels/cuda/common/simt.hpp"

namespace dpi::gpu {

/// dst[i] = src[i] for n vectors of 16 bytes; src may be pinned host memory.
int copy(void* dst, const void* src, int64_t n, int multiprocessors, kernels::cuda::Stream stream);

/// Reads `count` random rows of `vectors` 16-byte vectors each from a table of `rows` rows and sums them;
/// `sink` (one vector) is written only if a sum has an impossible value. seed: other rows at every call.
struct GatherArgs {
  const void* table = nullptr;
  void* sink = nullptr;
  int64_t rows = 0;
  int64_t count = 0;
  int32_t vectors = 4;
  uint32_t seed = 0;
  int32_t multiprocessors = 1;
};
int gather(const GatherArgs& args, kernels::cuda::Stream stream);

/// What a lookup without sums has to do: out row i = table row ids[i], each of `vectors` 16-byte vectors.
struct LookupCeilingArgs {
  const void* table = nullptr;
  const int32_t* ids = nullptr;
  void* out = nullptr;
  int64_t count = 0;
  int32_t vectors = 4;
  int32_t multiprocessors = 1;
};
int copy_rows(const LookupCeilingArgs& args, kernels::cuda::Stream stream);

/// A kernel of one warp that does nothing.
int nothing(kernels::cuda::Stream stream);

}  // namespace dpi::gpu
