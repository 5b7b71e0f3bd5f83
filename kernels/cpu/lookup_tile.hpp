// A tile of a MultiLookup: some rows, what has been summed up of them so far, and the two ways of going over
// its fields. Included by sources compiled per instruction set only.
#pragma once

#include <dpi/kernels/multi_lookup.hpp>

#include "kernels/cpu/pool.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

constexpr int64_t kMaxRowFloats = 768;  // of a pooled row that has no column in the output; on the stack
constexpr int64_t kRoomBytes = kMaxRowFloats * 4;

/// Rows [first, first + rows), rows <= kTile. sum: of the FM vectors so far, [rows, fm_stride]; pairs: FM so
/// far, one vector of shares a row; chan_sums: the channels so far, in double, because a row adds many
/// numbers to them one after another.
struct LookupTile {
  const MultiLookupArgs& a;
  int64_t first;
  int64_t rows;
  float* sum;
  float* pairs;
  double* chan_sums;
  unsigned char* room;  // [kRoomBytes]; a pooled row that has no column, or what fields_by_rows has of fields
  int64_t fm_stride;  // fm_dim in whole vectors: sums are read and written without masks, which would defeat
                      // store forwarding

  DPI_INLINE float* out(int64_t r, int32_t col) const { return row_of(a.out, first + r) + col; }
  DPI_INLINE double* chan(int64_t r) const { return chan_sums + r * a.attrs.n_channels; }
  DPI_INLINE float* fm(int64_t r) const { return sum + r * fm_stride; }
  DPI_INLINE float* spare() const { return reinterpret_cast<float*>(room); }
};

/// A row's FM while one field after another joins it.
struct FmRow {
  float* sum;
  float* at;
  Vec pairs;

  DPI_INLINE FmRow(const LookupTile& t, int64_t r)
      : sum(t.fm(r)), at(t.pairs + r * Vec::W), pairs(Vec::load(at)) {}
  /// e: the field's columns from i on, 0 beyond its last.
  DPI_INLINE void add(int64_t i, Vec e) {
    const Vec before = Vec::load(sum + i);
    pairs = fma(e, before, pairs);
    (before + e).store(sum + i);
  }
  DPI_INLINE void finish() const { pairs.store(at); }
};

/// Scalars that ride behind the rows of the fields are read right after them, while the line is near: field
/// 0, its scalar, field 1, its scalar ... Otherwise the scalars follow the fields.
DPI_INLINE bool rides_along(const MultiLookupAttrs& attrs) {
  if (attrs.n_scalars > attrs.n_fields) return false;
  for (int32_t i = 0; i < attrs.n_scalars; ++i) {
    if (attrs.scalars[i].input != attrs.fields[i].input) return false;
  }
  return true;
}

/// Bytes from the start of field i's rows to the end of the scalars that ride in their padding; 0 when they
/// do not.
DPI_INLINE int64_t ridden_bytes(const MultiLookupArgs& a, bool rides, int64_t i) {
  if (!rides || i < 0 || i >= a.attrs.n_scalars) return 0;
  const TableView& field = a.tables[a.attrs.fields[i].table];
  const TableView& scalar = a.tables[a.attrs.scalars[i].table];
  const auto offset = static_cast<int64_t>(reinterpret_cast<uintptr_t>(scalar.base) -
                                           reinterpret_cast<uintptr_t>(field.base));
  const int64_t end = offset + a.attrs.scalars[i].count * 4;
  return scalar.row_bytes == field.row_bytes && end > 0 && end <= field.row_bytes ? end : 0;
}

/// True if fields_by_rows takes such a call: one id a field and row, rows of one type and width that all go
/// to the output and into FM or none of them, a scalar behind each at most. Both ways give the same bits.
bool rows_are_alike(const MultiLookupArgs& a);

/// The fields and scalars of a tile, row by row: its FM stays in registers, a row of the output is written
/// from left to right.
void fields_by_rows(const LookupTile& t);

}  // namespace dpi::kernels::cpu::DPI_ISA
