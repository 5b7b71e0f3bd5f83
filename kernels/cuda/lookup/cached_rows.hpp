// Where the row of an id is read: in its table or, of a launch whose tables have caches, in a line of the
// cache that holds a copy. Device code of the fused lookup.
//
// Lines change while lookups run, by another stream's kernels (row_cache.cu), in this order: tag cleared; all
// calls that may have seen it ended; row copied; tag published, with release. So a tag that is seen says that
// the line has the row and keeps it until this call is over, and the copy and the table have the same bytes:
// who sees which changes no result. What is left to a reader is to look into the line after the tag, past
// L1, which may hold a neighbour's sector from before: FreshRead. Tags are read with acquire, which pairs
// with their release: an address that comes from a tag is no order by itself.
#pragma once

#include "kernels/cuda/common/loads.hpp"
#include "kernels/cuda/common/rows.hpp"
#include "kernels/cuda/lookup/work.hpp"

namespace dpi::kernels::cuda {

/// A row that may lie in a cache: its number in the table, or kInCache and a line. A row is looked for once,
/// and what was found serves its columns and its scale.
struct CachedRow {
  static constexpr uint32_t kInCache = 0x80000000u;
  static constexpr uint32_t kNone = ~0u;  // no line has that number
  uint32_t at;
};

/// The result type of row_of for a kind of launch.
template <class Head>
struct FoundRow {
  using Type = uint32_t;
};
template <>
struct FoundRow<CachedLaunch> {
  using Type = CachedRow;
};
template <class Head>
using RowOf = typename FoundRow<Head>::Type;

/// An id as a RowOf that nobody has looked for; ~0u = none.
__device__ __forceinline__ void set_id(uint32_t id, uint32_t* row) { *row = id; }
__device__ __forceinline__ void set_id(uint32_t id, CachedRow* row) { row->at = id; }
__device__ __forceinline__ uint32_t id_of(uint32_t row) { return row; }
__device__ __forceinline__ uint32_t id_of(CachedRow row) { return row.at; }

/// id < r.rows.
__device__ __forceinline__ uint32_t row_of(const Launch&, const RowRecord&, uint32_t id) { return id; }

__device__ __forceinline__ CachedRow row_of(const CachedLaunch&, const RowRecord& r, uint32_t id) {
  if (r.cache == nullptr) return {id};
  const RowCache* cache = in_global(r.cache);
  const uint32_t sets = load_word(&cache->sets);
  if (sets == 0) return {id};
  const uint32_t first = cache_set(id, sets) * kCacheWays;
  const uint32_t* tags = cache->tags + first;
  uint32_t at = id;
  DPI_ROLLED
  for (uint32_t way = 0; way < kCacheWays; way += 4) {
    uint32_t tag[4];
    load_tags(tags + way, tag);
    DPI_UNROLL
    for (uint32_t k = 0; k < 4; ++k) at = tag[k] == id + 1 ? CachedRow::kInCache | (first + way + k) : at;
  }
  return {at};
}

__device__ __forceinline__ const unsigned char* row_bytes_of(const RowRecord& r, uint32_t id) {
  return r.base + uint64_t{id} * r.row_bytes;
}

/// Through integers: a line lies in another block than the table.
__device__ __forceinline__ const unsigned char* row_bytes_of(const RowRecord& r, CachedRow row) {
  if ((row.at & CachedRow::kInCache) == 0) return row_bytes_of(r, row.at);
  const uint64_t line = uint64_t{row.at & ~CachedRow::kInCache} * r.row_bytes;
  return reinterpret_cast<const unsigned char*>(reinterpret_cast<uintptr_t>(r.base) + line +
                                                in_global(r.cache)->delta);
}

__device__ __forceinline__ RowHint hint_of(const Launch& w) { return w.hint; }
__device__ __forceinline__ FreshRead hint_of(const CachedLaunch&) { return {}; }

/// Looks for the row of an id, where it may be read in words.
__device__ __forceinline__ bool find_row(const Launch&, const RowRecord& r, uint32_t id, uint32_t* row) {
  *row = id;
  return id < r.wide_rows;
}
__device__ __forceinline__ bool find_row(const CachedLaunch& w, const RowRecord& r, uint32_t id,
                                         CachedRow* row) {
  *row = id < r.wide_rows ? row_of(w, r, id) : CachedRow{CachedRow::kNone};
  return row->at != CachedRow::kNone;
}

/// True if find_row found the row.
__device__ __forceinline__ bool is_found(const RowRecord& r, uint32_t id) { return id < r.wide_rows; }
__device__ __forceinline__ bool is_found(const RowRecord&, CachedRow row) {
  return row.at != CachedRow::kNone;
}

__device__ __forceinline__ float scale_of(const RowRecord& r, uint32_t id) {
  return r.dtype() == DType::kI8 ? in_global(r.scale)[int64_t{id} * r.scale_stride] : 1.0f;
}

/// A table with a cache has each scale in its row.
__device__ __forceinline__ float scale_of(const RowRecord& r, CachedRow row) {
  if (r.cache == nullptr) return scale_of(r, row.at);
  if (r.dtype() != DType::kI8) return 1.0f;
  const auto in_row = reinterpret_cast<uintptr_t>(r.scale) - reinterpret_cast<uintptr_t>(r.base);
  return float_of(load4(row_bytes_of(r, row) + in_row, FreshRead()));
}

/// Bytes of a row of a table with a cache, in the words that they lie in.
struct FreshBytes {
  const unsigned char* row;
  __device__ uint32_t at(int32_t i) const {
    return load4(row + i / 4 * 4, FreshRead()) >> (i % 4 * 8) & 0xFFu;
  }
};

/// Element `column` of a row of a table with a cache: of the word that it lies in, since strides and bases of
/// such tables are multiples of 4.
__device__ inline float fresh_element(const RowRecord& r, const unsigned char* row, int32_t column,
                                      float scale) {
  const DType type = r.dtype();
  if (type > DType::kI8) return whole_element<FreshBytes>(type, row, r.width, column);
  const int32_t bytes = column * (type == DType::kF32 ? 4 : type == DType::kI8 ? 1 : 2);
  const uint32_t word = load4(row + bytes / 4 * 4, FreshRead()) >> (bytes % 4 * 8);
  if (type == DType::kF32) return float_of(word);
  if (type == DType::kF16) return widened(Half{static_cast<uint16_t>(word)});
  if (type == DType::kBF16) return widened(Bfloat16{static_cast<uint16_t>(word)});
  return static_cast<float>(static_cast<int8_t>(word)) * scale;
}

}  // namespace dpi::kernels::cuda
