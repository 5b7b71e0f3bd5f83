// The work of one launch of the fused lookup: records, and which threads take them.
// Made by lookup/build.hpp and lookup/multi_lookup.cu on the host, read by lookup/copy.hpp,
// lookup/sums.hpp and lookup/bags.hpp on the device.
//
// A launch has up to three ranges of blocks:
//   bags   pooled fields that are only written            warp = some rows of one field
//   rows   what is summed per row, and written beside it   warp = one row, all its fields
//   copy   one-hot and numeric fields that are only written   thread = one output vector of several rows
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/common/loads.hpp"
#include "kernels/cuda/lookup/lookup.hpp"

namespace dpi::kernels::cuda {

/// One row's read and write of one field. Members that are read together lie in the same 16 bytes; 80 bytes
/// apart, records of eight groups of lanes lie in different banks of shared memory.
struct alignas(16) RowRecord {
  int32_t width = 0;       // columns; scalars: channels
  uint8_t type = 0;        // DType
  uint8_t wide_store = 0;  // its vectors in `out` are aligned to 16 bytes
  uint8_t numeric = 0;
  uint8_t fm = 0;                       // 1: one of FM's vectors
  int32_t out_col = -1;                 // -1: not written
  int32_t stride = 0;                   // of ids, or floats between numeric rows
  const unsigned char* base = nullptr;  // column 0 of row 0; numeric: the first row's values
  uint32_t wide_rows = 0;  // rows that may be read in words: rows or, where they are not aligned, 0
  uint32_t row_bytes = 0;
  const int32_t* ids = nullptr;
  const float* scale = nullptr;    // kI8: of row 0; numeric: the vector v, or null
  const float* weights = nullptr;  // of a bag; numeric: lin, or null
  int32_t scale_stride = 0;
  int32_t first_channel = 0;
  const RowCache* cache = nullptr;  // of its table: cached_rows.hpp
  uint32_t rows = 0;                // of the table
  int32_t input = 0;                // operand, to name a fault's place

  __device__ DType dtype() const { return static_cast<DType>(type); }
};

/// One field and what is done with it (RecordRole).
struct Record : RowRecord {
  const int32_t* offsets = nullptr;   // null: one id per row
  const uint64_t* nonzero = nullptr;  // bits by row
  int32_t first_unit = 0;
  int32_t dim = 0;  // of the table, for the nonzero rule
  int32_t pad_id = 0;
  int32_t max_len = 0;
  float eps = 0;
  float empty = 0;
  uint8_t pooling = 0;  // Pooling
  uint8_t mask = 0;     // MaskRule

  __device__ bool pools(Pooling p) const { return pooling == static_cast<uint8_t>(p); }
  __device__ bool masks(MaskRule m) const { return mask == static_cast<uint8_t>(m); }
};

/// log2 of the lanes that lie across `width` columns: 0 .. 5. Wider rows take several turns.
__host__ __device__ constexpr int32_t lanes_for(int32_t vector, int32_t width) {
  int32_t log2 = 0;
  while (log2 < 5 && (vector << log2) < width) ++log2;
  return log2;
}

struct Range {
  int32_t begin = 0;
  int32_t count = 0;
};

/// Everything of a launch but the records.
struct Launch {
  const Record* records = nullptr;  // in device memory when they are too many for the arguments
  const int32_t* order = nullptr;   // [bags.count][rows]: rows by length of their bag, or null
  LookupFaults* faults = nullptr;
  const float* bias = nullptr;
  void* out = nullptr;
  float* chan = nullptr;
  int64_t out_stride = 0;
  int64_t chan_stride = 0;
  int64_t rows = 0;
  RowHint hint = RowHint::kStream;
  DType out_type = DType::kF32;
  int32_t streams_out = 0;  // 1: what is written to out leaves L2 first

  // The order of the records.
  Range copy;         // one-hot and numeric, written only
  Range vectors;      // one-hot, in `rows`
  Range numerics;     // in `rows`
  Range vector_bags;  // pooled, in `rows`, summed for FM
  Range scalars;      // one-hot
  Range scalar_bags;  // pooled
  Range bags;         // pooled, written only

  int32_t bag_blocks = 0;  // blocks come in this order
  int32_t row_blocks = 0;
  int32_t copy_blocks = 0;

  int32_t n_units = 0;          // output vectors of a row in `copy`
  int32_t rows_per_thread = 1;  // at most the kernel's kIlp
  int64_t row_groups = 0;       // of rows_per_thread rows
  int64_t copy_groups = 0;      // worked on at once; a thread steps by as many

  int32_t bag_tiles = 0;

  int32_t lanes_log2 = 0;    // lanes across a vector of `rows`
  int32_t row_width = 0;     // columns of a vector of `rows`
  int32_t scalar_width = 0;  // of the widest of scalar_bags
  int32_t n_channels = 0;
  int32_t fm_channel = -1;
};

constexpr int kSmallRecords = 80;
constexpr int kLargeRecords = 224;
constexpr int kUnitMap = 1024;

/// A launch some of whose tables have a cache. A type of its own, so that the kernels of other launches hold
/// nothing of it: what reads rows is a template over the two.
struct CachedLaunch : Launch {};

/// The arguments of a kernel. map: the record of an output vector of `copy`, from copy.begin; used when
/// n_units <= kUnitMap.
template <int kCapacity, class Head = Launch>
struct Work {
  Head head;
  Record records[kCapacity];
  uint8_t map[kUnitMap];
};
static_assert(sizeof(RowRecord) == 80);
static_assert(sizeof(Record) == 128);
static_assert(sizeof(Work<kLargeRecords>) <= 32764, "kernel arguments have 32764 bytes");

/// One launch's view of its records. `map` is null when it is not filled.
struct View {
  const Record* records;
  const uint8_t* map;
};

}  // namespace dpi::kernels::cuda
