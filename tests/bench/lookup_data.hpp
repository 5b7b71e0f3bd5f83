// What the tests of lookups share: tables of random rows, one id a row or bags of them, comparisons.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <dpi/kernels/multi_lookup.hpp>
#include <dpi/kernels/narrow.hpp>

namespace dpi::test {

/// How a table lies in memory. shift: of its first row, in bytes: rows need not be aligned.
struct TableLayout {
  int64_t padding = 0;  // bytes behind each row
  int64_t shift = 1;
  int64_t scale_stride = 1;
};

/// Random rows, every fifth of them zeros. What lies between them is large and never 0.
struct LookupTable {
  std::vector<char> bytes;
  int64_t shift;
  std::vector<float> scale;
  std::vector<uint64_t> nonzero;
  kernels::TableView view;

  LookupTable(std::mt19937& rng, kernels::DType dtype, int32_t dim, int64_t rows, const TableLayout& layout)
      : shift(layout.shift) {
    const int64_t element = kernels::dtype_bytes(dtype);
    view.rows = rows;
    view.dim = dim;
    view.dtype = dtype;
    view.row_bytes = kernels::row_bytes_of(dtype, dim) + layout.padding;
    bytes.resize(static_cast<size_t>(rows * view.row_bytes + layout.shift), '\x7b');
    scale.resize(static_cast<size_t>(rows * layout.scale_stride), 1e6f);
    nonzero.assign(static_cast<size_t>(rows / 64 + 1), 0);
    for (int64_t r = 0; r < rows; ++r) {
      scale[static_cast<size_t>(r * layout.scale_stride)] = 0.001f * static_cast<float>(1 + rng() % 7);
      const bool zero = r % 5 == 0;
      if (!zero) nonzero[static_cast<size_t>(r / 64)] |= uint64_t{1} << (r % 64);
      char* const row = this->rows() + r * view.row_bytes;
      if (kernels::row_form(dtype).whole) {
        write_whole(row, zero, rng);
        continue;
      }
      for (int32_t k = 0; k < dim; ++k) write(row + k * element, zero, rng);
    }
    view.base = this->rows();
    view.scale = scale.data();
    view.scale_stride = layout.scale_stride;
    view.nonzero = nonzero.data();
  }
  /// Rows behind each other, with room for three elements between them when their number is odd.
  LookupTable(std::mt19937& rng, kernels::DType dtype, int32_t dim, int64_t rows)
      : LookupTable(rng, dtype, dim, rows, {rows % 2 == 0 ? 0 : 3 * kernels::dtype_bytes(dtype), 1, 1}) {}
  LookupTable(const LookupTable&) = delete;
  LookupTable& operator=(const LookupTable&) = delete;

  char* rows() { return bytes.data() + shift; }

  /// Any bits, finite values of about 1.
  void write_whole(char* row, bool zero, std::mt19937& rng) const {
    const int64_t n = kernels::element_row_bytes(view.dtype, view.dim);
    for (int64_t i = 0; i < n; ++i) {
      const auto bits = static_cast<uint8_t>(rng());
      row[i] = static_cast<char>(zero                                                          ? 0
                                 : view.dtype == kernels::DType::kFp8 && (bits & 0x7f) == 0x7f ? 1
                                                                                               : bits);
    }
    if (view.dtype == kernels::DType::kFp8) {
      const float scale = 0.002f * static_cast<float>(1 + rng() % 3);
      std::memcpy(row + n, &scale, sizeof scale);
      return;
    }
    const float offset = zero ? 0.0f : 0.1f * static_cast<float>(rng() % 7) - 0.3f;
    const uint16_t behind[] = {kernels::float_to_half(0.01f * static_cast<float>(1 + rng() % 7)),
                               kernels::float_to_half(offset)};
    std::memcpy(row + n, behind, sizeof behind);
  }

  void write(char* at, bool zero, std::mt19937& rng) const {
    if (view.dtype == kernels::DType::kF32) {
      const float v = zero ? 0 : std::uniform_real_distribution<float>(-1, 1)(rng);
      std::memcpy(at, &v, 4);
    } else if (view.dtype == kernels::DType::kI8) {
      const auto v = static_cast<int8_t>(zero ? 0 : static_cast<int>(rng() % 255) - 127);
      std::memcpy(at, &v, 1);
    } else {
      const bool half = view.dtype == kernels::DType::kF16;  // exponents near 1, some subnormal halves
      const uint32_t exponent = half ? rng() % 17 : 0x78u + rng() % 8;
      const auto v = static_cast<uint16_t>(
          zero ? 0 : (rng() & 0x8000u) | (exponent << (half ? 10 : 7)) | (rng() & 0x7Fu));
      std::memcpy(at, &v, 2);
    }
  }
};

struct BagData {
  std::vector<int32_t> ids;
  std::vector<int32_t> offsets;
  std::vector<float> weights;
  kernels::Bags bags;

  BagData(std::mt19937& rng, int64_t rows, int64_t table_rows, bool one_hot, bool weighted) {
    offsets.push_back(0);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t n = one_hot ? 1 : (rng() % 4 == 0 ? 0 : rng() % 9);
      for (int64_t i = 0; i < n; ++i) {
        ids.push_back(static_cast<int32_t>(rng() % static_cast<uint64_t>(table_rows)));
        weights.push_back(std::uniform_real_distribution<float>(0.1f, 2)(rng));
      }
      offsets.push_back(static_cast<int32_t>(ids.size()));
    }
    bags = {ids.data(), one_hot ? nullptr : offsets.data(), weighted && !one_hot ? weights.data() : nullptr,
            1, rows};
  }
};

/// NaN where `want` is NaN: neither has written there. Elsewhere a NaN fails.
inline void check_buffers(const std::vector<float>& got, const std::vector<float>& want, float tolerance) {
  int64_t bad = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    if (!(std::fabs(got[i] - want[i]) <= tolerance * std::fmax(1.0f, std::fabs(want[i])))) ++bad;
  }
  CHECK(bad == 0);
}

inline kernels::Tensor tensor_over(std::vector<float>& v, int64_t rows, int64_t stride, int64_t n) {
  kernels::Tensor t{v.data(), rows, stride, {}};
  t.dims.rank = 1;
  t.dims.d[0] = n;
  return t;
}

}  // namespace dpi::test
