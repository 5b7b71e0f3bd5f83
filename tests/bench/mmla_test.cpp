// Products in bf16 by BFMMLA against the plain definition of the Arm manual, by their bytes: how terms are
// paired, rounding to odd, what counts as zero, sums beyond float32. Numbers of ordinary size and at both
// ends of float32.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>

#include "kernels/cpu/tables.hpp"

namespace dpi::test::mmla_test {
namespace {

using namespace dpi::kernels;

std::mt19937& rng() {
  static std::mt19937 engine(20261129);
  return engine;
}

int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(rng()); }

/// v, of which `lost` is left, to float32: what is cut off sets the last bit. Below 2^-126 zero.
float to_odd(double v, double lost) {
  if (lost != 0 && std::signbit(lost) != std::signbit(v)) v = std::nextafter(v, 0.0);
  const auto bits = std::bit_cast<uint64_t>(v);
  const auto sign = static_cast<uint32_t>(bits >> 63) << 31;
  const int64_t exponent = static_cast<int64_t>(bits >> 52 & 2047) - 1023;
  if (exponent < -126) return std::bit_cast<float>(sign);
  if (exponent > 127) return std::bit_cast<float>(sign | 0x7f800000u);
  const auto fraction = static_cast<uint32_t>(bits >> 29 & 0x7fffff);
  const uint32_t odd = (bits & 0x1fffffff) != 0 || lost != 0 ? 1 : 0;
  return std::bit_cast<float>(sign | static_cast<uint32_t>(exponent + 127) << 23 | fraction | odd);
}

float add(float a, float b) {
  const double x = a, y = b, sum = x + y;
  if (!std::isfinite(sum)) return static_cast<float>(sum);
  const double part = sum - x;  // the error of a sum, exactly (Knuth)
  return to_odd(sum, (x - (sum - part)) + (y - part));
}

float flushed(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; }

float multiply(float a, float b) { return to_odd(double{flushed(a)} * flushed(b), 0); }

struct Layer {
  int64_t m, n, k;
  std::vector<float> x, w;

  /// size(): one number.
  template <class Size>
  Layer(int64_t rows, int64_t out, int64_t in, const Size& size) : m(rows), n(out), k(in) {
    for (int64_t i = 0; i < m * k; ++i) x.push_back(size());
    for (int64_t i = 0; i < n * k; ++i) w.push_back(size());
  }

  std::vector<float> run() const {
    const cpu::Functions& f = cpu::functions(cpu::Isa::kNeonMmla);
    std::vector<uint32_t> packed(static_cast<size_t>(f.gemm_bf16_words(n, k)));
    f.gemm_bf16_pack(w.data(), n, k, packed.data());
    std::vector<uint32_t> scratch(static_cast<size_t>(f.gemm_bf16_scratch(m, k)) / 4);
    std::vector<float> dst(static_cast<size_t>(m * n), NAN);
    cpu::GemmCall c;
    c.x = x.data();
    c.packed = packed.data();
    c.scratch = scratch.data();
    c.dst = dst.data();
    c.m = m;
    c.n = c.ldd = n;
    c.k = c.ldx = k;
    f.gemm_bf16(c);
    return dst;
  }

  float want(int64_t r, int64_t c) const {
    const auto of = [&](const std::vector<float>& v, int64_t row, int64_t i) {
      return i < k ? bf16_to_float(float_to_bf16(v[static_cast<size_t>(row * k + i)])) : 0.0f;
    };
    float sum = 0;
    for (int64_t i = 0; i < (k + 3) / 4 * 4; i += 2)
      sum = add(sum, add(multiply(of(x, r, i), of(w, c, i)), multiply(of(x, r, i + 1), of(w, c, i + 1))));
    return sum;
  }

  int64_t differing(const std::vector<float>& got) const {
    int64_t count = got.size() == static_cast<size_t>(m * n) ? 0 : -1;
    for (size_t i = 0; i < got.size(); ++i) {
      const float should = want(static_cast<int64_t>(i) / n, static_cast<int64_t>(i) % n);
      const bool both_nan = std::isnan(should) && std::isnan(got[i]);
      if (!both_nan && std::memcmp(&should, &got[i], sizeof should) != 0) ++count;
    }
    return count;
  }
};

}  // namespace

TEST_CASE("mmla: the definition itself rounds to odd") {
  CHECK(add(1, 0x1p-24f) == 1 + 0x1p-23f);   // inexact: the last bit is set
  CHECK(add(1, -0x1p-60f) == 1 - 0x1p-24f);  // cut, and the last bit is set already
  CHECK(add(1, 0x1p-100f) == 1 + 0x1p-23f);
  CHECK(add(0x1p-126f, -0x1.8p-126f) == 0);
  CHECK(multiply(0x1p-127f, 0x1p100f) == 0);
  CHECK(std::isinf(add(0x1.fffffep127f, 0x1.fffffep127f)));
}

TEST_CASE("mmla: products in bf16 have the bytes of the definition") {
  if (!cpu::isa_supported(cpu::Isa::kNeonMmla)) return;
  std::normal_distribution<float> normal(0, 1);
  for (int i = 0; i < 150; ++i) {
    const int form = i % 5;
    const auto base = static_cast<uint32_t>(form == 1 ? 62 : form == 2 ? 1 : form == 3 ? 122 : 188);
    const Layer p(1 + below(20), 1 + below(60), 1 + below(40), [&] {
      if (form == 0) return normal(rng());
      return std::bit_cast<float>((static_cast<uint32_t>(rng()()) & 0x807fffffu) |
                                  (base + static_cast<uint32_t>(below(4))) << 23);
    });
    CAPTURE(form);
    CAPTURE(p.m);
    CAPTURE(p.n);
    CAPTURE(p.k);
    const std::vector<float> got = p.run();
    CHECK(p.differing(got) == 0);
    Layer other = p;
    for (float& v : other.w) v *= 1.02f;
    if (form == 0) CHECK(other.differing(got) > 0);
  }
}

}  // namespace dpi::test::mmla_test
