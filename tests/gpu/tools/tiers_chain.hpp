// The steps of an embedding cache that is not fused, as HugeCTR's hierarchical parameter server has them: for
// one table at a time unique keys, a query, the missing rows brought by the host, insertion, and the rows
// handed out again to who asked twice. Own code, to be compared with (gpu_tiers). Kernels of tiers_chain.cu;
// the host's part is in tiers_ways.cpp. Pointers are device memory, rows aligned to 16 bytes.
#pragma once

#include <cstdint>

#include "kernels/cuda/common/simt.hpp"

namespace dpi::gpu::chain {

using kernels::cuda::Stream;

constexpr int kWays = 32;  // of a set: one key a lane

/// Set-associative; -1 = an empty line. A hit writes its line's stamp.
struct Cache {
  int32_t* keys = nullptr;    // [sets][kWays]
  int32_t* stamps = nullptr;  // [sets][kWays], the number of the call that last asked for it
  float4* rows = nullptr;     // [sets][kWays][vectors]
  int32_t sets = 0;
  int32_t vectors = 4;  // of 16 bytes, in a row
};

/// Which set a key belongs to.
__host__ __device__ inline int32_t set_of(int32_t key, int32_t sets) {
  return static_cast<int32_t>(
      static_cast<uint64_t>(static_cast<uint32_t>(key) * 0x9E3779B1u) * static_cast<uint32_t>(sets) >> 32);
}

/// What one call of one table needs. n keys at most `capacity`; slots: a power of two, at least 2 * capacity.
struct Work {
  const int32_t* keys = nullptr;    // [n]
  int32_t* slot_keys = nullptr;     // [slots], -1 = free
  int32_t* slot_index = nullptr;    // [slots], where in `unique` the slot's key is
  int32_t* slot_of = nullptr;       // [n]
  int32_t* unique = nullptr;        // [n]
  int32_t* miss_keys = nullptr;     // [n]
  int32_t* miss_at = nullptr;       // [n], where in `unique`
  float4* rows = nullptr;           // [n][vectors], of the unique keys
  const float4* brought = nullptr;  // [n][vectors], of the missing keys
  int* counts = nullptr;            // unique keys, missing keys
  int32_t n = 0;
  int32_t slots = 0;
};

int clear(const Work& w, Stream stream);
/// Fills slots, slot_of, unique and counts[0].
int find_unique(const Work& w, Stream stream);
/// Rows of the keys that are there; the others go to miss_keys and miss_at, their number to counts[1].
int query(const Work& w, const Cache& c, int32_t n_unique, int32_t stamp, Stream stream);
/// Puts the rows brought into the cache, each over the line of its set that has not been asked for longest,
/// but for lines of this call, and behind the unique rows that were there.
int insert(const Work& w, const Cache& c, int32_t n_missing, int32_t stamp, Stream stream);
/// out[i * stride] = the row of key i.
int expand(const Work& w, float4* out, int64_t stride, int32_t vectors, Stream stream);

}  // namespace dpi::gpu::chain
