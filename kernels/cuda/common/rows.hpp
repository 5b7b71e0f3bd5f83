// Rows of embedding tables and bags of ids on the device: decoding, pooling, the second check of every id.
// An id outside its table never reaches memory: it reads as a row of zeros. (The engine has checked and
// replaced such ids before; this guards memory against a fault in between.)
#pragma once

#include <dpi/kernels/embed.hpp>

#include "kernels/cuda/common/loads.hpp"
#include "kernels/cuda/common/narrow.hpp"

namespace dpi::kernels::cuda {

/// Rows may lie at any byte: 16-bit elements are read as such where the address allows it.
__device__ inline uint32_t load_u16(const unsigned char* p) {
  if ((reinterpret_cast<uintptr_t>(p) & 1u) == 0) return *reinterpret_cast<const uint16_t*>(p);
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8;
}

/// The bits of a float.
__device__ inline uint32_t load_bits(const unsigned char* p) {
  if ((reinterpret_cast<uintptr_t>(p) & 3u) == 0) return *reinterpret_cast<const uint32_t*>(p);
  return load_u16(p) | load_u16(p + 2) << 16;
}

__device__ inline float load_f32(const unsigned char* p) { return float_of(load_bits(p)); }

__device__ inline bool id_in_table(const TableView& t, int64_t id) { return id >= 0 && id < t.rows; }

__device__ inline const unsigned char* row_bytes_of(const TableView& t, int64_t id) {
  return static_cast<const unsigned char*>(t.base) + id * t.row_bytes;
}

/// A row's bytes, one at a time.
struct PlainBytes {
  const unsigned char* row;
  __device__ uint32_t at(int32_t i) const { return row[i]; }
};

/// An e4m3fn number: as f16 with the same bits, exponent's place included, it is 256 times less; but NaN.
__device__ inline float fp8_of(uint32_t byte) {
  const uint32_t size = byte & 0x7Fu;
  const auto half = static_cast<uint16_t>((byte & 0x80u) << 8 | size << 7);
  return size == 0x7Fu ? float_of(0x7FC00000u) : widened(Half{half}) * 256.0f;
}

/// Element `column` of a row of RowForm::whole, of `dim` elements. Bytes as PlainBytes. Not inlined: it is
/// rare, and its registers would be every lookup's.
template <class Bytes>
__device__ DPI_COLD float whole_element(DType type, const unsigned char* bytes, int32_t dim, int32_t column) {
  const Bytes row{bytes};
  if (type == DType::kFp8) {
    const uint32_t scale = row.at(dim) | row.at(dim + 1) << 8 | row.at(dim + 2) << 16 | row.at(dim + 3) << 24;
    return float_of(scale) * fp8_of(row.at(column));
  }
  const int32_t bits = type == DType::kI4 ? 4 : 2, bit = column * bits, behind = (dim * bits + 7) / 8;
  const uint32_t number = row.at(bit / 8) >> (bit % 8) & ((1u << bits) - 1u);
  const auto scale = static_cast<uint16_t>(row.at(behind) | row.at(behind + 1) << 8);
  const auto offset = static_cast<uint16_t>(row.at(behind + 2) | row.at(behind + 3) << 8);
  return fmaf(widened(Half{scale}), static_cast<float>(number), widened(Half{offset}));
}

/// Element `column` of row `id`.
__device__ inline float element_at(const TableView& t, int64_t id, int64_t column) {
  if (!id_in_table(t, id)) return 0;
  const unsigned char* row = row_bytes_of(t, id);
  switch (t.dtype) {
    case DType::kF32:
      return load_f32(row + column * 4);
    case DType::kF16:
      return widened(Half{static_cast<uint16_t>(load_u16(row + column * 2))});
    case DType::kBF16:
      return float_of(load_u16(row + column * 2) << 16);
    case DType::kI8:
      return static_cast<float>(static_cast<int8_t>(row[column])) * t.scale[id * t.scale_stride];
    default:
      return whole_element<PlainBytes>(t.dtype, row, t.dim, static_cast<int32_t>(column));
  }
}

/// Elements column .. column + 3; those past the table's dim are 0. One 16-byte load where type and address
/// allow it.
__device__ inline float4 vector_at(const TableView& t, int64_t id, int64_t column) {
  if (t.dtype == DType::kF32 && column + 4 <= t.dim && id_in_table(t, id)) {
    const unsigned char* p = row_bytes_of(t, id) + column * 4;
    if ((reinterpret_cast<uintptr_t>(p) & 15u) == 0) return *reinterpret_cast<const float4*>(p);
  }
  float v[4];
  for (int k = 0; k < 4; ++k) v[k] = column + k < t.dim ? element_at(t, id, column + k) : 0;
  return {v[0], v[1], v[2], v[3]};
}

/// The `nonzero` rule: is the float32 sum of the row's components, added in order, different from 0?
__device__ inline bool row_counts(const TableView& t, int64_t id) {
  if (!id_in_table(t, id)) return false;
  if (t.nonzero != nullptr) return ((t.nonzero[id / 64] >> (id % 64)) & 1u) != 0;
  float sum = 0;
  for (int64_t k = 0; k < t.dim; ++k) sum = __fadd_rn(sum, element_at(t, id, k));
  return sum != 0;
}

/// The ids of one row.
struct Bag {
  const int32_t* ids;
  const float* weights;  // null = all 1
  int64_t n;
};

__device__ inline Bag bag_of(const Bags& b, int64_t row) {
  if (b.offsets == nullptr) return {b.ids + row * b.stride, nullptr, 1};
  const int64_t begin = b.offsets[row];
  return {b.ids + begin, b.weights != nullptr ? b.weights + begin : nullptr, b.offsets[row + 1] - begin};
}

/// The id at position `t` of a bag laid out as max_len positions; pad_id where there is padding.
__device__ inline int32_t laid_out_id(const Bag& bag, PadSide side, int64_t max_len, int32_t pad_id,
                                      int64_t t, bool* is_padding) {
  const int64_t first = side == PadSide::kPre ? max_len - bag.n : 0;
  *is_padding = t < first || t >= first + bag.n;
  return *is_padding ? pad_id : bag.ids[t - first];
}

/// Does the position count? For kNonzero this is about the divisor only.
__device__ inline bool position_counts(const EmbedAttrs& a, const TableView& t, int32_t id) {
  if (a.mask == MaskRule::kId) return id != a.pad_id;
  if (a.mask == MaskRule::kNonzero) return row_counts(t, id);
  return true;
}

/// Columns column .. column + N - 1 (N = 1 or 4) of the pooled row, for every pooling but kNone.
template <int N>
struct Pooled {
  float v[N];
};

template <int N>
__device__ inline Pooled<N> columns_at(const TableView& t, int64_t id, int64_t column) {
  if constexpr (N == 1) {
    return {{element_at(t, id, column)}};
  } else {
    const float4 x = vector_at(t, id, column);
    return {{x.x, x.y, x.z, x.w}};
  }
}

template <int N>
__device__ inline Pooled<N> pooled_max(const EmbedAttrs& a, const Bag& bag, const TableView& t,
                                       int64_t column) {
  Pooled<N> best;
  for (int k = 0; k < N; ++k) best.v[k] = a.empty;
  bool any = false;
  const int64_t n = a.mask == MaskRule::kNone && a.max_len > bag.n ? a.max_len : bag.n;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t id = i < bag.n ? bag.ids[i] : a.pad_id;
    if (!position_counts(a, t, id)) continue;
    const Pooled<N> x = columns_at<N>(t, id, column);
    for (int k = 0; k < N; ++k) best.v[k] = !any || !(x.v[k] <= best.v[k]) ? x.v[k] : best.v[k];
    any = true;
  }
  return best;
}

template <int N>
__device__ inline Pooled<N> pooled_sum(const EmbedAttrs& a, const Bag& bag, const TableView& t,
                                       int64_t column) {
  Pooled<N> sum = {};
  float divisor = 0;
  int64_t counted = 0;
  const int64_t n = a.mask == MaskRule::kNone && a.max_len > bag.n ? a.max_len : bag.n;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t id = i < bag.n ? bag.ids[i] : a.pad_id;
    const float weight = i < bag.n && bag.weights != nullptr ? bag.weights[i] : 1.0f;
    const bool counts = position_counts(a, t, id);
    if (counts || a.mask == MaskRule::kNonzero) {
      const Pooled<N> x = columns_at<N>(t, id, column);
      for (int k = 0; k < N; ++k) sum.v[k] = fmaf(weight, x.v[k], sum.v[k]);
    }
    if (!counts) continue;
    divisor += weight;
    ++counted;
  }
  if (a.pooling == Pooling::kSum) return sum;
  for (int k = 0; k < N; ++k) sum.v[k] = counted == 0 ? 0.0f : sum.v[k] / (divisor + a.eps);
  return sum;
}

template <int N>
__device__ inline Pooled<N> pooled(const EmbedAttrs& a, const Bag& bag, const TableView& t, int64_t column) {
  switch (a.pooling) {
    case Pooling::kSingle:
      return columns_at<N>(t, bag.ids[0], column);
    case Pooling::kMax:
      return pooled_max<N>(a, bag, t, column);
    default:
      return pooled_sum<N>(a, bag, t, column);
  }
}

}  // namespace dpi::kernels::cuda
