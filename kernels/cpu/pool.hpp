// Rows of embedding tables as vectors, and the pooling of one bag: what Embed and MultiLookup share.
// Included by sources compiled per instruction set only.
#pragma once

#include <dpi/kernels/embed.hpp>

#include "kernels/cpu/simd/prefetch.hpp"
#include "kernels/cpu/simd/vec.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

DPI_INLINE const char* table_row(const TableView& t, int64_t id) {
  return static_cast<const char*>(t.base) + id * t.row_bytes;
}

DPI_INLINE Vec row_scale(const TableView& t, int64_t id) {
  return Vec::all(t.dtype == DType::kI8 ? t.scale[id * t.scale_stride] : 1.0f);
}

/// Calls body with the row type as a constant.
template <class Body>
DPI_INLINE void with_dtype(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::kF32:
      return body.template operator()<DType::kF32>();
    case DType::kF16:
      return body.template operator()<DType::kF16>();
    case DType::kBF16:
      return body.template operator()<DType::kBF16>();
    case DType::kI8:
      return body.template operator()<DType::kI8>();
  }
}

/// Elements [i, i + n) of a row, n <= W.
template <DType T>
DPI_INLINE Vec load_row(const char* row, Vec scale, int64_t i, int64_t n) {
  if constexpr (T == DType::kF32) {
    return load_n(reinterpret_cast<const float*>(row) + i, n);
  } else if constexpr (T == DType::kF16) {
    return Vec::load_f16(row + 2 * i, n);
  } else if constexpr (T == DType::kBF16) {
    return Vec::load_bf16(row + 2 * i, n);
  } else {
    return Vec::load_i8(reinterpret_cast<const int8_t*>(row) + i, n) * scale;
  }
}

DPI_INLINE int64_t element_bytes(DType t) { return t == DType::kF32 ? 4 : t == DType::kI8 ? 1 : 2; }

DPI_INLINE int64_t row_data_bytes(const TableView& t) { return t.dim * element_bytes(t.dtype); }

/// The cache lines that hold the first `bytes` of a row, and its scale.
DPI_INLINE void prefetch_row(const TableView& t, int64_t id, int64_t bytes) {
  prefetch_bytes(table_row(t, id), bytes);
  if (t.dtype == DType::kI8) prefetch_line(t.scale + id * t.scale_stride);
}

/// The cache lines that hold a row's elements.
DPI_INLINE void prefetch_row(const TableView& t, int64_t id) { prefetch_row(t, id, row_data_bytes(t)); }

/// The ids of one row.
struct Bag {
  const int32_t* ids;
  const float* weights;  // null = all 1
  int64_t n;
};

DPI_INLINE Bag bag_at(const Bags& bags, int64_t row) {
  if (bags.offsets == nullptr) return {bags.ids + row * bags.stride, nullptr, 1};
  const int64_t begin = bags.offsets[row];
  return {bags.ids + begin, bags.weights == nullptr ? nullptr : bags.weights + begin,
          bags.offsets[row + 1] - begin};
}

/// dst[0 .. dim) = the pooled row (every Pooling but kNone; kSingle reads ids[0]).
void pool_bag(const EmbedAttrs& attrs, const Bag& bag, const TableView& table, float* dst);

/// dst[0 .. dim) = row `id`.
void decode_row(const TableView& table, int64_t id, float* dst);

}  // namespace dpi::kernels::cpu::DPI_ISA
