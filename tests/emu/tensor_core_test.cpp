// The model of a tensor core's sums: the examples by which its parts can be told apart, and random sums
// against the same rules in exact arithmetic.
#include "kernels/emu/tensor_core.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace dpi::test::tensor_core_test {
namespace {

using emu::kTensorColumns;

/// start + a[0] + a[1] ..., each times 1, in column 5.
float sum_of(float start, const std::vector<float>& a, const emu::TensorCore& core = emu::kHopper) {
  std::vector<float> ones(a.size() * kTensorColumns, 1.0f);
  float sum[kTensorColumns] = {};
  sum[5] = start;
  emu::tensor_add(sum, a.data(), reinterpret_cast<const float(*)[kTensorColumns]>(ones.data()),
                  static_cast<int>(a.size()), core.depth_tf32, core.extra_bits);
  return sum[5];
}

TEST_CASE("tensor core: a sum is cut towards zero, not rounded") {
  CHECK(sum_of(1, {0x1.8p-24f}) == 1.0f);  // nearest would be 1 + 2^-23
  CHECK(sum_of(-1, {-0x1.8p-24f}) == -1.0f);
  CHECK(sum_of(1, {0x1p-23f}) == 1 + 0x1p-23f);
  CHECK(sum_of(1, {-0x1p-24f}) == 1 - 0x1p-24f);
  CHECK(sum_of(1, {-1}) == 0.0f);
}

TEST_CASE("tensor core: terms of one step are added exactly, as far as the bits below the largest reach") {
  CHECK(sum_of(1, {0x1p-25f, 0x1p-25f, 0x1p-25f, 0x1p-25f}) == 1 + 0x1p-23f);
  CHECK(sum_of(1, {0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-26f, 0x1p-26f}) == 1.0f);
  CHECK(sum_of(1, {0x1p-25f, 0x1p-25f, 0x1p-25f, 0x1p-25f}, emu::kAmpere) == 1.0f);  // one bit fewer
  CHECK(sum_of(1, {0x1p-24f, 0x1p-24f}, emu::kAmpere) == 1 + 0x1p-23f);
}

TEST_CASE("tensor core: steps are cut one by one") {
  std::vector<float> apart(16, 0.0f);  // two steps of Hopper
  apart[0] = apart[8] = 0x1p-24f;
  CHECK(sum_of(1, apart) == 1.0f);
  std::vector<float> together(16, 0.0f);
  together[0] = together[7] = 0x1p-24f;
  CHECK(sum_of(1, together) == 1 + 0x1p-23f);
  CHECK(sum_of(1, together, emu::kAmpere) == 1.0f);  // there they are two
}

TEST_CASE("tensor core: infinities and NaN stay, in their column") {
  CHECK(sum_of(1, {INFINITY}) == INFINITY);
  CHECK(std::isnan(sum_of(1, {INFINITY, -INFINITY})));
  CHECK(std::isnan(sum_of(NAN, {1})));
  CHECK(sum_of(0, {0x1p127f, 0x1p127f}) == INFINITY);
  CHECK(sum_of(0, {0x1p-60f, 0x1p-61f}) == 0x1.8p-60f);
}

/// The rules once more, term by term, in long double, whose 64 bits hold each sum exactly.
float by_the_rules(float sum, const float* products, int n, int step, int extra) {
  for (int begin = 0; begin < n; begin += step) {
    const int end = begin + step < n ? begin + step : n;
    double largest = std::fabs(sum);
    for (int k = begin; k < end; ++k) largest = std::fmax(largest, std::fabs(products[k]));
    if (largest == 0) continue;
    const long double unit = std::ldexp(1.0L, std::ilogb(largest) - 23 - extra);
    long double units = std::trunc(sum / unit);
    for (int k = begin; k < end; ++k) units += std::trunc(products[k] / unit);
    const long double total = units * unit;
    if (total == 0) {
      sum = 0;
      continue;
    }
    const long double last = std::ldexp(1.0L, std::ilogb(total) - 23);
    sum = static_cast<float>(std::trunc(total / last) * last);
  }
  return sum;
}

TEST_CASE("tensor core: random sums follow the rules bit by bit") {
  uint64_t state = 1;
  const auto next = [&] { return state = state * 6364136223846793005ull + 1442695040888963407ull; };
  const auto element = [&] {  // 11 bits, exponents far apart
    const auto bits = static_cast<float>(static_cast<int64_t>(next() >> 53) - 1024);
    return std::ldexp(bits, static_cast<int>(next() >> 59) - 26);
  };
  int wrong = 0;
  for (const emu::TensorCore& core : {emu::kHopper, emu::kAmpere}) {
    for (const int step : {core.depth_tf32, core.depth_16}) {
      for (int round = 0; round < 300; ++round) {
        const int depth = 1 + static_cast<int>(next() >> 58);
        std::vector<float> a(static_cast<size_t>(depth)), b(a.size() * kTensorColumns), products(a.size());
        for (float& v : a) v = element();
        for (float& v : b) v = element();
        float sum[kTensorColumns], start[kTensorColumns];
        for (int n = 0; n < kTensorColumns; ++n) start[n] = sum[n] = element();
        emu::tensor_add(sum, a.data(), reinterpret_cast<const float(*)[kTensorColumns]>(b.data()), depth,
                        step, core.extra_bits);
        for (int n = 0; n < kTensorColumns; ++n) {
          for (size_t k = 0; k < a.size(); ++k)
            products[k] = a[k] * b[k * kTensorColumns + static_cast<size_t>(n)];
          wrong += sum[n] == by_the_rules(start[n], products.data(), depth, step, core.extra_bits) ? 0 : 1;
        }
      }
    }
  }
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace dpi::test::tensor_core_test
