// The `copy` blocks of the fused lookup: a thread owns one output vector (kVec columns of one field) and goes
// through the rows, kIlp of them in flight. What it needs to know of its field is found once; no division and
// no search is left in the loop. Device code.
#pragma once

#include "kernels/cuda/lookup/vector.hpp"

namespace dpi::kernels::cuda {

/// The last record of `range` whose first unit is not behind `unit`; records without units own none.
__device__ inline int32_t record_of_unit(const Record* records, Range range, int32_t unit) {
  int32_t low = range.begin;
  int32_t high = range.begin + range.count - 1;
  while (low < high) {
    const int32_t middle = (low + high + 1) / 2;
    if (records[middle].first_unit <= unit) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// Rows first .. first + n - 1, n <= kIlp, of one output vector inside the field's width. True when rows were
/// left out because they cannot be read at once, or are not in the table.
template <int kVec, bool kNarrow, int kIlp, DType kT, class Head>
__device__ __forceinline__ bool copy_batch(const Head& w, const Record& r, int32_t column, int64_t first,
                                           int32_t n) {
  RowOf<Head> row[kIlp];
  Raw<kVec> raw[kIlp];
  DPI_UNROLL
  for (int k = 0; k < kIlp; ++k)
    set_id(k < n ? static_cast<uint32_t>(in_global(r.ids)[(first + k) * r.stride]) : ~0u, &row[k]);
  DPI_UNROLL
  for (int k = 0; k < kIlp; ++k) {
    if (find_row(w, r, id_of(row[k]), &row[k]))
      load_wide<kVec, kT>(row_bytes_of(r, row[k]) + column * element_bytes(kT), hint_of(w), &raw[k]);
  }
  bool rare = false;
  DPI_UNROLL
  for (int k = 0; k < kIlp; ++k) {
    if (!is_found(r, row[k])) {
      rare = rare || k < n;
      continue;
    }
    const float scale = kT == DType::kI8 ? scale_of(r, row[k]) : 1.0f;
    store_vector<kVec, kNarrow>(w, out_column(r, column), first + k, decode_typed<kVec, kT>(raw[k], scale));
  }
  return rare;
}

/// A copy of what the loop over rows needs of a record: the compiler keeps it in registers, where it would
/// read the record again after each store to out.
__device__ __forceinline__ Record copy_fields(const Record& from) {
  Record r;
  r.base = from.base;
  r.ids = from.ids;
  r.scale = from.scale;
  r.wide_rows = from.wide_rows;
  r.row_bytes = from.row_bytes;
  r.stride = from.stride;
  r.scale_stride = from.scale_stride;
  r.cache = from.cache;
  r.out_col = from.out_col;
  r.width = from.width;
  r.type = from.type;
  r.wide_store = from.wide_store;
  return r;
}

template <int kVec, bool kNarrow, int kIlp, DType kT, class Head>
__device__ __forceinline__ bool copy_rows(const Head& w, const Record& record, int32_t column,
                                          int64_t group) {
  constexpr int kOwn = kVec == 8 && kT == DType::kF32 ? kIlp / 2 : kIlp;  // 32 bytes each
  const Record r = copy_fields(record);
  bool rare = false;
  for (; group < w.row_groups; group += w.copy_groups) {
    const int64_t first = group * w.rows_per_thread;
    const int64_t left = w.rows - first;
    const int32_t n = left < w.rows_per_thread ? static_cast<int32_t>(left) : w.rows_per_thread;
    DPI_ROLLED
    for (int32_t k = 0; k < n; k += kOwn)
      rare = copy_batch<kVec, kNarrow, kOwn, kT>(w, r, column, first + k, n - k) || rare;
  }
  return rare;
}

/// The vector that ends a field whose width is no multiple of kVec: two rows at a time, of any type.
template <int kVec, bool kNarrow, class Head>
__device__ inline bool copy_last_columns(const Head& w, const Record& r, int32_t column, int64_t group) {
  bool rare = false;
  for (; group < w.row_groups; group += w.copy_groups) {
    const int64_t first = group * w.rows_per_thread;
    const int64_t left = w.rows - first;
    const int64_t end = first + (left < w.rows_per_thread ? left : w.rows_per_thread);
    DPI_ROLLED
    for (int64_t row = first; row < end; row += 2) {
      RowOf<Head> found[2];
      Raw<kVec> raw[2];
      for (int k = 0; k < 2; ++k) {
        const uint32_t id =
            row + k < end ? static_cast<uint32_t>(in_global(r.ids)[(row + k) * r.stride]) : ~0u;
        if (find_row(w, r, id, &found[k])) load_vector<kVec>(r, found[k], column, hint_of(w), &raw[k]);
      }
      for (int k = 0; k < 2; ++k) {
        const bool wide = is_found(r, found[k]);
        rare = rare || (!wide && row + k < end);
        if (wide)
          store_vector<kVec, kNarrow>(w, out_column(r, column), row + k,
                                      decode_vector<kVec>(r.dtype(), raw[k], scale_of(r, found[k])));
      }
    }
  }
  return rare;
}

/// The rows that copy_rows or copy_last_columns left out, element by element. In a loop of its own, so that
/// theirs does not need its registers.
template <int kVec, bool kNarrow, class Head>
__device__ inline void copy_rare(const Head& w, const Record& r, int32_t column, int64_t group) {
  for (; group < w.row_groups; group += w.copy_groups) {
    const int64_t first = group * w.rows_per_thread;
    DPI_ROLLED
    for (int64_t row = first; row < first + w.rows_per_thread && row < w.rows; ++row) {
      const auto id = static_cast<uint32_t>(in_global(r.ids)[row * r.stride]);
      if (id < r.wide_rows) continue;
      store_vector<kVec, kNarrow>(w, out_column(r, column), row, read_elements<kVec>(w, r, id, column, row));
    }
  }
}

template <int kVec, bool kNarrow>
__device__ inline void copy_numeric(const Launch& w, const Record& r, int32_t column, int64_t group) {
  for (; group < w.row_groups; group += w.copy_groups) {
    const int64_t first = group * w.rows_per_thread;
    for (int64_t row = first; row < first + w.rows_per_thread && row < w.rows; ++row) {
      const float* x = in_global(reinterpret_cast<const float*>(r.base)) + row * r.stride;
      store_vector<kVec, kNarrow>(w, out_column(r, column), row, numeric_vector<kVec>(r, x, column));
    }
  }
}

/// thread: number of this thread in the `copy` blocks.
template <int kVec, bool kNarrow, int kIlp, class Head>
__device__ inline void copy_columns(const Head& w, const View& view, uint32_t thread) {
  const uint32_t units = static_cast<uint32_t>(w.n_units);
  const uint32_t group = thread / units;
  if (group >= w.copy_groups) return;
  const auto unit = static_cast<int32_t>(thread - group * units);
  const int32_t index =
      view.map != nullptr ? w.copy.begin + view.map[unit] : record_of_unit(view.records, w.copy, unit);
  const Record& r = view.records[index];
  const int32_t column = (unit - r.first_unit) * kVec;
  if (r.numeric != 0) return copy_numeric<kVec, kNarrow>(w, r, column, group);
  bool rare = false;
  if (column + kVec > r.width) {
    rare = copy_last_columns<kVec, kNarrow>(w, r, column, group);
  } else if (r.dtype() == DType::kF32) {
    rare = copy_rows<kVec, kNarrow, kIlp, DType::kF32>(w, r, column, group);
  } else if (r.dtype() == DType::kF16) {
    rare = copy_rows<kVec, kNarrow, kIlp, DType::kF16>(w, r, column, group);
  } else if (r.dtype() == DType::kBF16) {
    rare = copy_rows<kVec, kNarrow, kIlp, DType::kBF16>(w, r, column, group);
  } else {
    rare = copy_rows<kVec, kNarrow, kIlp, DType::kI8>(w, r, column, group);
  }
  if (rare) copy_rare<kVec, kNarrow>(w, r, column, group);
}

}  // namespace dpi::kernels::cuda
