// GELU by the error function on every instruction set of kernels/cpu, against the C library's erfc in double:
// floats of every size, where digits of x Phi(x) are lost (Phi near 0), and what is no number.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "bench/each_set.hpp"

namespace dpi::test::gelu_sets_test {
namespace {

using namespace dpi::kernels;

constexpr double kMostUnits = 7;  // without fma() 6.3 over every 197th float, with it 5.4

Tensor row_of(std::vector<float>& v, int64_t from, int64_t n) {
  Dims dims;
  dims.rank = 1;
  dims.d[0] = n;
  return {v.data() + from, 1, n, dims};
}

std::vector<float> gelu(const cpu::Functions& f, std::vector<float> x) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> y(x.size(), std::numeric_limits<float>::quiet_NaN());
  f.unary({{UnaryKind::kGeluErf, 0, 0}, row_of(x, 0, n), {}, {}, {}, row_of(y, 0, n)});
  return y;
}

double exact(float x) { return 0.5 * x * std::erfc(-double{x} / std::sqrt(2.0)); }

/// Units in the last place of `want`, subnormal ones too.
double units(float got, double want) {
  const double unit = std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
  return std::fabs(got - want) / unit;
}

/// Floats from one end to the other: every `step` patterns of bits, both signs.
std::vector<float> floats_of_every_size(uint32_t step) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += step)
    for (const uint32_t sign : {0u, 0x80000000u}) x.push_back(std::bit_cast<float>(bits | sign));
  return x;
}

/// Both sides of 0 as far as Phi is a number.
std::vector<float> floats_of_the_curve(int count) {
  std::vector<float> x;
  for (int i = 0; i < count; ++i)
    x.push_back(-15.0f + 30.0f * static_cast<float>(i) / static_cast<float>(count));
  return x;
}

void check_units(const cpu::Functions& f, const std::vector<float>& x) {
  const std::vector<float> y = gelu(f, x);
  int64_t bad = 0;
  float at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (units(y[i], exact(x[i])) <= kMostUnits) continue;  // NaN is not
    ++bad;
    at = x[i];
  }
  CAPTURE(at);
  CHECK(bad == 0);
}

}  // namespace

TEST_CASE("gelu: within seven units in the last place of every result, down to the smallest float") {
  for_each_set([](const cpu::Functions& f) {
    check_units(f, floats_of_every_size(20011));
    check_units(f, floats_of_the_curve(60013));
  });
}

TEST_CASE("gelu: zeros, infinities, NaN and the ends of float") {
  const float inf = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  for_each_set([&](const cpu::Functions& f) {
    const std::vector<float> y = gelu(
        f, {0.0f, -0.0f, inf, -inf, std::numeric_limits<float>::quiet_NaN(), most, -most, -14.5f, -40.0f});
    CHECK(y[0] == 0);
    CHECK(y[1] == 0);
    CHECK(y[2] == inf);
    CHECK(std::isnan(y[3]));  // -infinity times 0, as in float64 and in PyTorch
    CHECK(std::isnan(y[4]));
    CHECK(y[5] == most);
    for (const size_t i : {6, 7, 8}) CHECK(y[i] == 0);
  });
}

TEST_CASE("gelu: a value's bits do not depend on its place or on how many there are") {
  const std::vector<float> x = floats_of_the_curve(83);
  for_each_set([&](const cpu::Functions& f) {
    const std::vector<float> whole = gelu(f, x);
    for (size_t from = 0; from < x.size(); ++from) {
      for (const size_t n : {size_t{1}, size_t{3}, size_t{9}, size_t{17}, x.size() - from}) {
        if (from + n > x.size()) continue;
        const auto first = x.begin() + static_cast<std::ptrdiff_t>(from);
        const std::vector<float> part = gelu(f, {first, first + static_cast<std::ptrdiff_t>(n)});
        CHECK(std::memcmp(part.data(), whole.data() + from, n * sizeof(float)) == 0);
      }
    }
  });
}

}  // namespace dpi::test::gelu_sets_test
