// Rows of values of any type in memory that a kernel over the emulation reads and writes: between rows and
// around them lie bytes that are NaN in all types and that nobody may change.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>
#include <dpi/kernels/tensor.hpp>

#include "kernels/emu/device_emu.hpp"

namespace dpi::test {

class Matrix {
 public:
  /// offset: bytes off the alignment of 64.
  Matrix(int64_t rows, int64_t width, kernels::DType type, int64_t padding = 0, size_t offset = 0)
      : rows_(rows),
        width_(width),
        stride_(width + padding),
        type_(type),
        size_(static_cast<size_t>(kernels::dtype_bytes(type))),
        bytes_(kBand + 64 + offset + static_cast<size_t>(rows * stride_) * size_ + kBand, 0xFF) {
    const auto at = reinterpret_cast<uintptr_t>(bytes_.data()) + kBand;
    first_ = (at + 63) / 64 * 64 - at + kBand + offset;
  }

  void fill(const std::function<float(int64_t, int64_t)>& f) {
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < width_; ++c) set(r, c, f(r, c));
    }
  }
  void set(int64_t r, int64_t c, float v) {
    if (type_ == kernels::DType::kF32) {
      std::memcpy(at(r, c), &v, 4);
    } else {
      const uint16_t bits =
          type_ == kernels::DType::kF16 ? kernels::float_to_half(v) : kernels::float_to_bf16(v);
      std::memcpy(at(r, c), &bits, 2);
    }
  }
  float get(int64_t r, int64_t c) const {
    float v = 0;
    uint16_t bits = 0;
    if (type_ == kernels::DType::kF32) {
      std::memcpy(&v, at(r, c), 4);
      return v;
    }
    std::memcpy(&bits, at(r, c), 2);
    return type_ == kernels::DType::kF16 ? kernels::half_to_float(bits) : kernels::bf16_to_float(bits);
  }

  kernels::Tensor tensor() {
    return {reinterpret_cast<float*>(bytes_.data() + first_), rows_, stride_, {1, {width_}}, type_};
  }
  float* floats() { return tensor().data; }
  int64_t stride() const { return stride_; }
  kernels::DType type() const { return type_; }

  bool outside_unchanged() const {
    const size_t end = first_ + static_cast<size_t>(rows_ * stride_) * size_;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const bool in_row =
          i >= first_ && i < end &&
          (i - first_) % (static_cast<size_t>(stride_) * size_) < static_cast<size_t>(width_) * size_;
      if (!in_row && bytes_[i] != 0xFF) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kBand = 64;
  const unsigned char* at(int64_t r, int64_t c) const {
    return bytes_.data() + first_ + static_cast<size_t>(r * stride_ + c) * size_;
  }
  unsigned char* at(int64_t r, int64_t c) {
    return const_cast<unsigned char*>(std::as_const(*this).at(r, c));
  }

  int64_t rows_, width_, stride_;
  kernels::DType type_;
  size_t size_;
  std::vector<unsigned char> bytes_;
  size_t first_ = 0;
};

/// A small whole number that each of the three types holds, another for each place and seed.
inline float small_number(int64_t r, int64_t c, int64_t most, int64_t seed) {
  const auto h = static_cast<uint64_t>(r * 7919 + c * 104729 + seed * 1299709) * 0x9E3779B97F4A7C15ull >> 33;
  return static_cast<float>(static_cast<int64_t>(h % static_cast<uint64_t>(2 * most + 1)) - most);
}

/// Some number between -1 and 1.
inline float any_number(int64_t r, int64_t c, int64_t seed) {
  return small_number(r, c, 1 << 22, seed) / static_cast<float>(1 << 22);
}

/// Runs f(stream) over the emulation, and waits.
template <class F>
void run_emulated(const F& f) {
  emu::Stream* stream = nullptr;
  REQUIRE(emu::stream_create(&stream) == 0);
  CHECK(f(stream) == 0);
  CHECK_MESSAGE(emu::stream_sync(stream) == 0, std::string(emu::last_error()));
  emu::stream_destroy(stream);
}

}  // namespace dpi::test
