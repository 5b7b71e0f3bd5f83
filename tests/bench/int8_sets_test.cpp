// Products in int8, every instruction set of the processor, against float64 sums over weights and rows that
// were rounded alike, and against each other's bytes: odd sizes, tails, more rows than a block, sums at the
// limits, a row's bits in every batch, what is not finite, zeros, scratch.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/pack_int8.hpp"
#include "kernels/cpu/tables.hpp"
#include "kernels/cpu/tile_permission.hpp"

namespace dpi::test::int8_sets_test {
namespace {

using namespace dpi::kernels;

std::mt19937& rng() {
  static std::mt19937 engine(20261124);
  return engine;
}

std::vector<float> random_floats(int64_t n, float size = 1) {
  std::normal_distribution<float> normal(0, size);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = normal(rng());
  return v;
}

struct Layer {
  static constexpr float kGuard = 12345.0f;
  cpu::Isa isa;
  int64_t m, n, k;
  std::vector<float> x, w, bias;
  std::vector<uint32_t> packed;

  Layer(cpu::Isa set, int64_t rows, int64_t out, int64_t in)
      : isa(set),
        m(rows),
        n(out),
        k(in),
        x(random_floats(rows * (in + 3), 3)),
        w(random_floats(out * in)),
        bias(random_floats(out)) {}

  void pack() {
    const cpu::Functions& f = cpu::functions(isa);
    packed.assign(static_cast<size_t>(f.gemm_int8_words(n, k)), 0xffffffffu);
    f.gemm_int8_pack(w.data(), n, k, packed.data());
  }

  std::vector<float> run(int64_t first, int64_t rows, int32_t parts = 1) const {
    const cpu::Functions& f = cpu::functions(isa);
    std::vector<uint32_t> scratch(static_cast<size_t>(f.gemm_int8_scratch(rows, k)) / 4 + 2, 0x7fc07fc0u);
    std::vector<float> dst(static_cast<size_t>(rows * (n + 5) + 1), kGuard), out;
    cpu::GemmCall c;
    c.x = x.data() + first * (k + 3);
    c.packed = packed.data();
    c.scratch = scratch.data() + 1;
    c.bias = bias.data();
    c.dst = dst.data() + 1;
    c.m = rows;
    c.n = n;
    c.k = k;
    c.ldx = k + 3;
    c.ldd = n + 5;
    c.parts = parts;
    for (c.part = 0; c.part < parts; ++c.part) f.gemm_int8(c);
    CHECK(scratch.front() == 0x7fc07fc0u);
    CHECK(scratch.back() == 0x7fc07fc0u);
    bool between = dst[0] != kGuard;
    for (int64_t i = 0; i < rows * (n + 5); ++i) {
      const float v = dst[static_cast<size_t>(i + 1)];
      if (i % (n + 5) < n) out.push_back(v);
      if (i % (n + 5) >= n) between = between || v != kGuard;
    }
    CHECK_FALSE(between);
    return out;
  }

  /// Element (r, c) over rounded operands; *size: the magnitudes of its terms.
  double want(int64_t r, int64_t c, double* size) const {
    const float* const row = x.data() + r * (k + 3);
    float most = 0;
    for (int64_t i = 0; i < k; ++i) most = std::max(most, std::fabs(row[i]));
    const float of_row = most / 127.0f, of_column = int8_scale(w.data() + c * k, k);
    double sum = 0;
    *size = std::fabs(bias[static_cast<size_t>(c)]);
    for (int64_t i = 0; i < k; ++i) {
      const double q = of_row > 0 ? std::nearbyint(row[i] * (1.0f / of_row)) : 0;
      const double term = q * cpu::int8_of(w[static_cast<size_t>(c * k + i)], of_column);
      sum += term;
      *size += std::fabs(term * of_row * of_column);
    }
    return sum * of_row * of_column + bias[static_cast<size_t>(c)];
  }
  static float int8_scale(const float* column, int64_t k) { return cpu::int8_scale(column, k); }

  double error(const std::vector<float>& got) const {
    double worst = got.size() == static_cast<size_t>(m * n) ? 0 : INFINITY;
    for (size_t i = 0; i < got.size(); ++i) {
      double size = 0;
      const double should = want(static_cast<int64_t>(i) / n, static_cast<int64_t>(i) % n, &size);
      const double e = std::fabs(got[i] - should) / (3e-7 * size + 1e-30);
      if (!(e <= worst)) worst = std::isnan(e) ? INFINITY : e;
    }
    return worst;
  }
};

template <class Body>
void for_each_set(Body&& body) {
  for (const cpu::Isa isa : cpu::kIsas) {
    if (isa == cpu::Isa::kAvx512Bf16) continue;  // kAvx512's
    if (!cpu::isa_supported(isa) || (isa == cpu::Isa::kAmx && !cpu::ask_for_tiles())) continue;
    CAPTURE(std::string(cpu::isa_name(isa)));
    body(isa);
  }
}

bool same(const std::vector<float>& a, const std::vector<float>& all, int64_t from) {
  return a.size() + static_cast<size_t>(from) <= all.size() &&
         std::memcmp(a.data(), all.data() + from, a.size() * sizeof(float)) == 0;
}

const std::vector<int64_t> kSizes = {1, 2, 3, 5, 15, 16, 17, 33, 47, 48, 49, 98, 131, 200, 451};

}  // namespace

TEST_CASE("int8: sums agree with float64 over what was rounded, and a row's bits are those of every batch") {
  for_each_set([](cpu::Isa isa) {
    for (const int64_t m :
         {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{5}, int64_t{7}, int64_t{9}, int64_t{67}}) {
      for (const int64_t n : kSizes) {
        const int64_t k = kSizes[rng()() % kSizes.size()];
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        Layer p(isa, m, n, k);
        p.pack();
        const std::vector<float> all = p.run(0, m);
        CHECK(p.error(all) <= 1);
        const auto r = static_cast<int64_t>(rng()() % static_cast<uint64_t>(m));
        CHECK(same(p.run(r, std::min<int64_t>(m - r, 4)), all, r * n));
        for (int32_t parts = 2; parts <= 5; ++parts) CHECK(same(p.run(0, m, parts), all, 0));
      }
    }
  });
}

TEST_CASE("int8: more rows than a block, the deepest sums, and the rounding shows") {
  for_each_set([](cpu::Isa isa) {
    Layer p(isa, 400, 50, 1202);
    p.pack();
    const std::vector<float> all = p.run(0, 400);
    CHECK(p.error(all) <= 1);
    CHECK(same(p.run(399, 1), all, 399 * 50));
    for (float& v : p.w) v *= 1.001f;  // scales only
    CHECK(p.error(all) > 10);
    Layer deep(isa, 1, 17, cpu::kInt8Depth);
    for (float& v : deep.w) v = -1;
    for (float& v : deep.x) v = 1;
    deep.pack();
    CHECK(deep.error(deep.run(0, 1)) <= 1);
  });
}

TEST_CASE("int8: every set has the bytes of the plain one, at the limits of what a byte holds too") {
  for_each_set([](cpu::Isa isa) {
    for (int i = 0; i < 120; ++i) {
      const auto size = [](int64_t most) {
        return 1 + static_cast<int64_t>(rng()() % static_cast<uint64_t>(most));
      };
      Layer p(isa, size(20), size(120), size(150));
      CAPTURE(p.m);
      CAPTURE(p.n);
      CAPTURE(p.k);
      if (i % 3 == 0) {  // bytes of 127 and -127 only
        for (float& v : p.x) v = v < 0 ? -1.0f : 1.0f;
        for (float& v : p.w) v = v < 0 ? -1.0f : 1.0f;
      }
      if (i % 6 == 0) std::fill(p.x.begin(), p.x.end(), 1.0f);
      if (i % 12 == 0) std::fill(p.w.begin(), p.w.end(), -1.0f);
      Layer plain = p;
      plain.isa = cpu::Isa::kScalar;
      p.pack();
      plain.pack();
      CHECK(same(p.run(0, p.m), plain.run(0, p.m), 0));
      CHECK(p.error(p.run(0, p.m)) <= 1);
    }
    for (const float sign : {1.0f, -1.0f}) {  // 65536 x 127 x 127 in 32 bits, and the bits below
      Layer deep(isa, 3, 20, cpu::kInt8Depth);
      for (float& v : deep.w) v = sign;
      for (float& v : deep.x) v = 1;
      std::fill(deep.bias.begin(), deep.bias.end(), 0.0f);
      deep.x[5] = 0;
      deep.pack();
      const float step = 1.0f / 127.0f, want = static_cast<float>(sign * 65535.0 * 127 * 127) * (step * step);
      for (const float got : deep.run(1, 2))
        CHECK(got == static_cast<float>(sign * 65536.0 * 127 * 127) * (step * step));
      for (const float got : deep.run(0, 1)) CHECK(got == want);
    }
  });
}

TEST_CASE("int8: a row that is not finite gets NaN, other rows and zeros are as they are") {
  for_each_set([](cpu::Isa isa) {
    for (const float special : {NAN, INFINITY, -INFINITY}) {
      Layer p(isa, 4, 40, 33);
      p.x[2 * 36 + 32] = special;
      for (int64_t i = 0; i < 33; ++i) p.x[static_cast<size_t>(36 + i)] = i % 2 == 0 ? 0.0f : -0.0f;
      std::fill(p.w.begin() + 33, p.w.begin() + 66, 0.0f);  // a column of zeros
      p.pack();
      const std::vector<float> got = p.run(0, 4);
      for (size_t i = 0; i < got.size(); ++i) CHECK(std::isnan(got[i]) == (i / 40 == 2));
      for (size_t i = 0; i < 40; ++i) CHECK(got[40 + i] == p.bias[i]);
      CHECK(got[1] == p.bias[1]);
    }
  });
}

}  // namespace dpi::test::int8_sets_test
