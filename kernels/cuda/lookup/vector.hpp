// One vector of a row: kVec elements from any table type, decoded to float, written as float or 16 bits.
// Device code of the fused lookup.
#pragma once

#include "kernels/cuda/common/narrow.hpp"
#include "kernels/cuda/common/rows.hpp"
#include "kernels/cuda/lookup/cached_rows.hpp"

namespace dpi::kernels::cuda {

/// The bytes of kVec elements as they lie in memory, from the first word on.
template <int kVec>
struct Raw {
#ifdef __CUDACC__
  uint32_t w[kVec];  // read only where it was loaded
#else
  uint32_t w[kVec] = {};  // the host compiler cannot see that and would warn
#endif
};

template <int kVec>
struct Values {
  float v[kVec];
};

/// Bytes of one element.
__host__ __device__ constexpr int element_bytes(DType t) {
  return t == DType::kF32 ? 4 : t == DType::kI8 ? 1 : 2;
}

/// Counts a refused id or bag.
__device__ inline void report_fault(const Launch& w, const RowRecord& r, int64_t row) {
  if (w.faults == nullptr) return;
  atomicAdd(&w.faults->count, 1ull);
  const uint64_t place = static_cast<uint64_t>(row) << 20 | static_cast<uint32_t>(r.input);
  atomicMin(&w.faults->first, static_cast<unsigned long long>(place));
}

/// Whole words. kT decides at compile time how many. Hint: RowHint, or FreshRead of rows that may lie in a
/// cache.
template <int kVec, DType kT, class Hint>
__device__ __forceinline__ void load_wide(const unsigned char* p, Hint hint, Raw<kVec>* raw) {
  constexpr int kBytes = kVec * (kT == DType::kF32 ? 4 : kT == DType::kI8 ? 1 : 2);
  if constexpr (kBytes == 4) {
    raw->w[0] = load4(p, hint);
  } else if constexpr (kBytes == 8) {
    load8(p, hint, raw->w);
  } else if constexpr (kBytes >= 16) {
    load16(p, hint, raw->w);
    if constexpr (kBytes == 32) load16(p + 16, hint, raw->w + 4);
  }
}

/// The first n (less than kVec) elements, in words. The last word is inside the row: row_bytes is a multiple
/// of 4 where rows are read in words.
template <int kVec, DType kT, class Hint>
__device__ __forceinline__ void load_last(const unsigned char* p, int32_t n, Hint hint, Raw<kVec>* raw) {
  constexpr int kBytes = element_bytes(kT);
  DPI_UNROLL
  for (int k = 0; k < kVec * kBytes / 4; ++k) raw->w[k] = k * 4 < n * kBytes ? load4(p + k * 4, hint) : 0;
}

/// A row to be read from `column` on; left: columns of the field from there on.
struct RowPart {
  const unsigned char* row;
  int32_t column;
  int32_t left;
  DType type;
};

/// Columns column .. column + kVec - 1. What is past the width is any bytes.
template <int kVec, DType kT, class Hint>
__device__ __forceinline__ void load_typed(const RowPart& from, Hint hint, Raw<kVec>* raw) {
  const unsigned char* p = from.row + int64_t{from.column} * element_bytes(kT);
  if (from.left >= kVec) {
    load_wide<kVec, kT>(p, hint, raw);
  } else {
    load_last<kVec, kT>(p, from.left, hint, raw);
  }
}

template <int kVec, class Hint>
__device__ __forceinline__ void load_part(const RowPart& from, Hint hint, Raw<kVec>* raw) {
  if (from.type == DType::kF32) return load_typed<kVec, DType::kF32>(from, hint, raw);
  if (from.type == DType::kI8) return load_typed<kVec, DType::kI8>(from, hint, raw);
  load_typed<kVec, DType::kF16>(from, hint, raw);  // or kBF16
}

/// The same of a row found of an id < wide_rows.
template <int kVec, class Row, class Hint>
__device__ __forceinline__ void load_vector(const RowRecord& r, Row row, int32_t column, Hint hint,
                                            Raw<kVec>* raw) {
  load_part<kVec>({row_bytes_of(r, row), column, r.width - column, r.dtype()}, hint, raw);
}

/// All but what the nonzero rule asks for.
__device__ inline TableView rows_of(const RowRecord& r) {
  TableView t;
  t.base = in_global(r.base);
  t.scale = in_global(r.scale);
  t.rows = r.rows;
  t.row_bytes = r.row_bytes;
  t.scale_stride = r.scale_stride;
  t.dim = r.width;
  t.dtype = r.dtype();
  return t;
}

__device__ inline TableView table_of(const Record& r) {
  TableView t = rows_of(r);
  t.nonzero = in_global(r.nonzero);
  t.dim = r.dim;
  return t;
}

/// The columns of a row element by element, for what may not be read at once. An id outside the table gives
/// zeros, and is counted once per row (at column 0) where row >= 0. Every column from the width on is 0.
template <int kVec>
__device__ inline Values<kVec> read_elements(const Launch& w, const RowRecord& r, uint32_t id, int32_t column,
                                             int64_t row) {
  Values<kVec> x = {};
  if (id >= r.rows) {
    if (column == 0 && row >= 0) report_fault(w, r, row);
    return x;
  }
  const TableView t = rows_of(r);
  DPI_UNROLL
  for (int k = 0; k < kVec; ++k) {
    if (column + k < r.width) x.v[k] = element_at(t, id, column + k);
  }
  return x;
}

/// The same where the table may have a cache.
template <int kVec>
__device__ inline Values<kVec> read_elements(const CachedLaunch& w, const RowRecord& r, uint32_t id,
                                             int32_t column, int64_t row) {
  if (r.cache == nullptr || id >= r.rows)
    return read_elements<kVec>(static_cast<const Launch&>(w), r, id, column, row);
  Values<kVec> x = {};
  const CachedRow row_found = row_of(w, r, id);
  const unsigned char* p = row_bytes_of(r, row_found);
  const float scale = scale_of(r, row_found);
  DPI_UNROLL
  for (int k = 0; k < kVec; ++k) {
    if (column + k < r.width) x.v[k] = fresh_element(r, p, column + k, scale);
  }
  return x;
}

template <int kVec, DType kT>
__device__ __forceinline__ Values<kVec> decode_typed(const Raw<kVec>& raw, float scale) {
  Values<kVec> x;
  DPI_UNROLL
  for (int k = 0; k < kVec; ++k) {
    if constexpr (kT == DType::kF32) {
      x.v[k] = float_of(raw.w[k]);
    } else if constexpr (kT == DType::kI8) {
      x.v[k] = static_cast<float>(static_cast<int8_t>(raw.w[k / 4] >> (k % 4 * 8))) * scale;
    } else {
      const auto bits = static_cast<uint16_t>(raw.w[k / 2] >> (k % 2 * 16));
      x.v[k] = kT == DType::kF16 ? widened(Half{bits}) : widened(Bfloat16{bits});
    }
  }
  return x;
}

template <int kVec>
__device__ __forceinline__ Values<kVec> decode_vector(DType type, const Raw<kVec>& raw, float scale) {
  if (type == DType::kF32) return decode_typed<kVec, DType::kF32>(raw, scale);
  if (type == DType::kI8) return decode_typed<kVec, DType::kI8>(raw, scale);
  if (type == DType::kF16) return decode_typed<kVec, DType::kF16>(raw, scale);
  return decode_typed<kVec, DType::kBF16>(raw, scale);
}

/// Columns from `n` on become 0.
template <int kVec>
__device__ __forceinline__ void clear_from(int32_t n, Values<kVec>* x) {
  DPI_UNROLL
  for (int k = 0; k < kVec; ++k) {
    if (k >= n) x->v[k] = 0;
  }
}

__device__ __forceinline__ uint32_t narrow_bits(DType type, float v) {
  return type == DType::kF16 ? half_of(v).bits : bfloat16_of(v).bits;
}

/// Where a vector goes in a row of out: its first column, columns left of its field, alignment.
struct OutColumn {
  int32_t column;
  int32_t width;
  uint32_t wide;
};

__device__ __forceinline__ OutColumn out_column(const RowRecord& r, int32_t column) {
  return {r.out_col + column, r.width - column, r.wide_store};
}

/// Stores 16 bytes, streamed if the launch says so. Single columns at the end of a field are never streamed:
/// the next field's store completes their line.
__device__ __forceinline__ void store_whole(const Launch& w, void* p, const Word4& v) {
  if (w.streams_out != 0) return store16_streaming(p, v);
  store16(p, v);
}

/// The first to.width (at most kVec) of x.
template <int kVec, bool kNarrow>
__device__ __forceinline__ void store_vector(const Launch& w, const OutColumn& to, int64_t row,
                                             const Values<kVec>& x) {
  const int64_t at = row * w.out_stride + to.column;
  const bool whole = to.width >= kVec && to.wide != 0;
  if constexpr (kNarrow) {
    auto* dst = static_cast<uint16_t*>(w.out) + at;
    Word4 word;
    DPI_UNROLL
    for (int k = 0; k < 4; ++k)
      word.w[k] = narrow_bits(w.out_type, x.v[2 * k]) | narrow_bits(w.out_type, x.v[2 * k + 1]) << 16;
    if (whole) return store_whole(w, dst, word);
    DPI_UNROLL
    for (int k = 0; k < kVec; ++k) {
      if (k < to.width) dst[k] = static_cast<uint16_t>(word.w[k / 2] >> (k % 2 * 16));
    }
  } else {
    auto* dst = static_cast<float*>(w.out) + at;
    if (whole) {
      DPI_UNROLL
      for (int k = 0; k < kVec; k += 4)
        store_whole(w, dst + k,
                    {bits_of(x.v[k]), bits_of(x.v[k + 1]), bits_of(x.v[k + 2]), bits_of(x.v[k + 3])});
      return;
    }
    DPI_UNROLL
    for (int k = 0; k < kVec; ++k) {
      if (k < to.width) dst[k] = x.v[k];
    }
  }
}

/// Columns of a numeric field: x v, or x itself.
template <int kVec>
__device__ __forceinline__ Values<kVec> numeric_vector(const RowRecord& r, const float* x, int32_t column) {
  const float* v = in_global(r.scale);
  Values<kVec> y;
  DPI_UNROLL
  for (int k = 0; k < kVec; ++k) {
    const bool in = column + k < r.width;
    y.v[k] = !in ? 0.0f : r.scale != nullptr ? x[0] * v[column + k] : x[column + k];
  }
  return y;
}

}  // namespace dpi::kernels::cuda
