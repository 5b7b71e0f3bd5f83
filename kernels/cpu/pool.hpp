// Rows of embedding tables as vectors, and the pooling of one bag: what Embed and MultiLookup share.
// Included by sources compiled per instruction set only.
#pragma once

#include <dpi/kernels/embed.hpp>

#include "kernels/cpu/simd/prefetch.hpp"
#include "kernels/cpu/simd/row_bits.hpp"
#include "kernels/cpu/simd/vec.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

DPI_INLINE const char* table_row(const TableView& t, int64_t id) {
  return static_cast<const char*>(t.base) + id * t.row_bytes;
}

DPI_INLINE int64_t elements_bytes(DType t, int64_t dim) {
  return (dim * kRowForms[static_cast<int>(t)].bits + 7) / 8;
}

/// The factor of a row's numbers and what is added then, where its type has such.
struct RowScale {
  Vec scale, offset;
};

template <DType T>
DPI_INLINE RowScale row_scale(const TableView& t, int64_t id) {
  if constexpr (T == DType::kI8) {
    return {Vec::all(t.scale[id * t.scale_stride]), Vec::zero()};
  } else if constexpr (T == DType::kFp8) {
    const char* const behind = table_row(t, id) + elements_bytes(T, t.dim);
    return {Vec::all(bytes_at<float>(behind)), Vec::zero()};
  } else if constexpr (kRowForms[static_cast<int>(T)].whole) {
    const char* const behind = table_row(t, id) + elements_bytes(T, t.dim);
    return {Vec::all(half_at(behind)), Vec::all(half_at(behind + 2))};
  } else {
    return {Vec::zero(), Vec::zero()};
  }
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
    case DType::kI4:
      return body.template operator()<DType::kI4>();
    case DType::kI2:
      return body.template operator()<DType::kI2>();
    case DType::kFp8:
      return body.template operator()<DType::kFp8>();
  }
}

/// Elements [i, i + n) of a row, n <= W; lanes from n on are 0 where all of the row's numbers are finite.
template <DType T>
DPI_INLINE Vec load_row(const char* row, const RowScale& s, int64_t i, int64_t n) {
  if constexpr (T == DType::kF32) {
    return load_n(reinterpret_cast<const float*>(row) + i, n);
  } else if constexpr (T == DType::kF16) {
    return Vec::load_f16(row + 2 * i, n);
  } else if constexpr (T == DType::kBF16) {
    return Vec::load_bf16(row + 2 * i, n);
  } else if constexpr (T == DType::kI8) {
    return Vec::load_i8(reinterpret_cast<const int8_t*>(row) + i, n) * s.scale;
  } else if constexpr (T == DType::kFp8) {
    return load_fp8(reinterpret_cast<const uint8_t*>(row) + i, n) * s.scale;
  } else {
    constexpr int kBits = kRowForms[static_cast<int>(T)].bits;
    const Vec v = fma(load_bits<kBits>(reinterpret_cast<const uint8_t*>(row), i, n), s.scale, s.offset);
    return n >= Vec::W ? v : keep_first(v, n);
  }
}

/// With what lies behind the elements.
DPI_INLINE int64_t row_data_bytes(const TableView& t) {
  const RowForm& form = kRowForms[static_cast<int>(t.dtype)];
  return elements_bytes(t.dtype, t.dim) + (form.whole ? form.scale_bytes + form.offset_bytes : 0);
}

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
