// The data that kernels see: plain structs over raw pointers. No ownership, no framework types.
//
// A value of the plan has `rows` rows (item rows, shared rows, or 1 for a constant) of `dims` elements each,
// row-major.
#pragma once

#include <cstdint>

#include <dpi/kernels/row_cache.hpp>

namespace dpi::kernels {

constexpr int kMaxRank = 5;

/// Extents of one row of a value, without the row axis.
struct Dims {
  int32_t rank = 0;
  int64_t d[kMaxRank] = {};

  constexpr int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= d[i];
    return n;
  }
  /// Extent of an axis; negative axes count from the end.
  constexpr int64_t at(int axis) const { return d[axis < 0 ? axis + rank : axis]; }
  constexpr bool operator==(const Dims& o) const {
    if (rank != o.rank) return false;
    for (int i = 0; i < rank; ++i) {
      if (d[i] != o.d[i]) return false;
    }
    return true;
  }
};

/// Element types. Values are kF32, kF16 or kBF16; the others are for rows of tables only.
enum class DType : int32_t { kF32 = 0, kF16 = 1, kBF16 = 2, kI8 = 3, kI4 = 4, kI2 = 5, kFp8 = 6 };

/// How rows of a type are made. scale_bytes, offset_bytes: of the numbers that each row has beside its
/// elements. whole: they lie behind the elements of the row and are part of it; those of i8 lie apart.
struct RowForm {
  const char* name;
  int32_t bits;  // of an element
  int32_t scale_bytes;
  int32_t offset_bytes;
  bool whole;
};

/// One line for each DType.
constexpr RowForm kRowForms[] = {
    {"f32", 32, 0, 0, false}, {"f16", 16, 0, 0, false}, {"bf16", 16, 0, 0, false}, {"i8", 8, 4, 0, false},
    {"i4", 4, 2, 2, true},    {"i2", 2, 2, 2, true},    {"fp8", 8, 4, 0, true},
};

constexpr const RowForm& row_form(DType t) { return kRowForms[static_cast<int>(t)]; }

constexpr const char* name_of(DType t) { return row_form(t).name; }

/// Bytes of an element of a value.
constexpr int64_t dtype_bytes(DType t) {
  return t == DType::kF32 ? 4 : t == DType::kF16 || t == DType::kBF16 ? 2 : 1;
}

/// Bytes of a row's elements.
constexpr int64_t element_row_bytes(DType t, int64_t dim) { return (dim * row_form(t).bits + 7) / 8; }

/// Bytes of a row with what lies behind its elements.
constexpr int64_t row_bytes_of(DType t, int64_t dim) {
  const RowForm& form = row_form(t);
  return element_row_bytes(t, dim) + (form.whole ? form.scale_bytes + form.offset_bytes : 0);
}

/// Floats of one value. Row r starts at data + r * row_stride and holds dims.size() contiguous elements.
/// row_stride >= dims.size(), or 0 for a constant (every row is the same; rows may then be any number).
struct Tensor {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t row_stride = 0;
  Dims dims;
  /// kF32, or, where a backend agreed to it for this value, kF16 or kBF16: `data` then points to 16-bit
  /// elements and must be cast; strides and columns count elements all the same.
  DType dtype = DType::kF32;

  /// Row r of a kF32 tensor.
  float* row(int64_t r) const { return data + r * row_stride; }
};

/// Ids of one feature, already checked against its table (0 <= id < table rows) and cut to max_len.
/// offsets == nullptr: one id per row, ids[r * stride]. Otherwise row r owns ids[offsets[r]] .. ids[offsets[r
/// + 1] - 1]. weights, when not null, runs parallel to ids (bags only).
struct Bags {
  const int32_t* ids = nullptr;
  const int32_t* offsets = nullptr;
  const float* weights = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
};

/// One input of an op: `bags` for ids, else `tensor`.
struct Operand {
  Tensor tensor;
  Bags bags;
};

/// One embedding table as a lookup reads it. Row i starts at base + i * row_bytes and holds dim elements of
/// dtype. kI8: value = int8 * scale[i * scale_stride]. kI4 and kI2: whole numbers without a sign, the first
/// element in the lowest bits of a byte; behind them f16 scale and offset, value = scale * number + offset.
/// kFp8: e4m3fn, behind them an f32 scale, value = scale * number. `nonzero`: bit i of nonzero[i / 64] says
/// whether row i's float32 component sum is not 0 (only where an op asks for the `nonzero` mask rule, else
/// null). `cache`: copies of some rows that MultiLookup may read instead, or null; others read the table
/// itself.
struct TableView {
  const void* base = nullptr;
  const float* scale = nullptr;
  const uint64_t* nonzero = nullptr;
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int64_t scale_stride = 0;
  int32_t dim = 0;
  DType dtype = DType::kF32;
  const RowCache* cache = nullptr;
};

/// A weight tensor as the bundle or a fold pass left it: contiguous row-major f32. data may be null (absent).
struct Param {
  const float* data = nullptr;
  Dims dims;
};

}  // namespace dpi::kernels
