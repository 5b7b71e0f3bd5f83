// Tensor cores in portable loops over 16 columns, which the compiler turns into vector code. Compile as
// fiber.cpp.
#include "kernels/emu/tensor_core.hpp"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace dpi::emu {

namespace {

// Vector code for whatever processor runs the tests.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define DPI_EMU_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DPI_EMU_CLONES
#endif
#define DPI_EMU_INLINE inline __attribute__((always_inline))

constexpr int kN = kTensorColumns;
constexpr int kMostProducts = 16;
constexpr uint32_t kExponent = 0x7f800000u;
constexpr uint32_t kLeast = 32u << 23;  // smaller sums are cut to units of it, so that no scale overflows

DPI_EMU_INLINE float power(uint32_t biased) { return std::bit_cast<float>(biased << 23); }

// The first 24 significant bits, toward zero.
DPI_EMU_INLINE float cut_to_float(int32_t units) {
  constexpr uint64_t kDropped = (uint64_t{1} << 29) - 1;
  return static_cast<float>(
      std::bit_cast<double>(std::bit_cast<uint64_t>(static_cast<double>(units)) & ~kDropped));
}

struct Terms {
  float products[kMostProducts][kN];
  uint32_t largest[kN];  // of the magnitudes, the accumulator's included, as bits: NaN is above infinity
};

DPI_EMU_INLINE uint32_t magnitude(float v) { return std::bit_cast<uint32_t>(v) & 0x7fffffffu; }

// Without the rare cases, so that the loops are vector code.
DPI_EMU_INLINE void add_finite(float* sum, const Terms& t, int n_products, int extra_bits) {
  const auto extra = static_cast<uint32_t>(extra_bits);
  float scale[kN], unit[kN];
  int32_t units[kN];
  for (int n = 0; n < kN; ++n) {
    const uint32_t bits = t.largest[n] & kExponent;
    const uint32_t exponent = (bits > kLeast ? bits : kLeast) >> 23;
    scale[n] = power(277 + extra - exponent);
    unit[n] = power(exponent - 23 - extra);
    units[n] = static_cast<int32_t>(sum[n] * scale[n]);
  }
  for (int k = 0; k < n_products; ++k) {
    for (int n = 0; n < kN; ++n) units[n] += static_cast<int32_t>(t.products[k][n] * scale[n]);
  }
  for (int n = 0; n < kN; ++n) sum[n] = cut_to_float(units[n]) * unit[n];
}

DPI_EMU_INLINE void add_step(float* sum, const float* a, const float (*b)[kN], int n_products,
                             int extra_bits) {
  Terms t;
  for (int n = 0; n < kN; ++n) t.largest[n] = magnitude(sum[n]);
  for (int k = 0; k < n_products; ++k) {
    for (int n = 0; n < kN; ++n) {
      const float p = a[k] * b[k][n];
      t.products[k][n] = p;
      const uint32_t size = magnitude(p);
      t.largest[n] = size > t.largest[n] ? size : t.largest[n];
    }
  }
  uint32_t infinite = 0;
  for (int n = 0; n < kN; ++n) infinite |= t.largest[n] >= kExponent ? 1u : 0u;
  if (infinite == 0) return add_finite(sum, t, n_products, extra_bits);
  for (int k = 0; k < n_products; ++k) {
    for (int n = 0; n < kN; ++n) sum[n] += t.products[k][n];
  }
}

}  // namespace

const TensorCore& tensor_core() {
  static const char* const kName = std::getenv("DPI_EMU_TENSOR");
  static const bool kIsAmpere = kName != nullptr && std::strcmp(kName, "ampere") == 0;
  return kIsAmpere ? kAmpere : kHopper;
}

DPI_EMU_CLONES void tensor_add(float* sum, const float* a, const float (*b)[kTensorColumns], int depth,
                               int step, int extra_bits) {
  for (int k = 0; k < depth; k += step) {
    const int left = depth - k;
    if (step == 8 && left >= 8) {
      add_step(sum, a + k, b + k, 8, extra_bits);  // a constant: unrolled
    } else {
      add_step(sum, a + k, b + k, left < step ? left : step, extra_bits);
    }
  }
}

}  // namespace dpi::emu
