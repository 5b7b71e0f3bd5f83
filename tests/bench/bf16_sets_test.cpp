// Products with weights in bf16, every instruction set of the processor, against float64 sums over weights
// (and inputs, where the processor multiplies bf16) that were rounded alike. Odd sizes, tails, more rows than
// a block; a row's bits in every batch; NaN, infinities and values that bf16 does not hold; scratch.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <dpi/kernels/narrow.hpp>
#include <dpi/kernels/row_decode.hpp>

#include "kernels/cpu/tables.hpp"
#include "kernels/cpu/tile_permission.hpp"

namespace dpi::test::bf16_sets_test {
namespace {

using namespace dpi::kernels;

constexpr cpu::Isa kSets[] = {cpu::Isa::kScalar, cpu::Isa::kAvx2, cpu::Isa::kAvx512,  cpu::Isa::kAvx512Bf16,
                              cpu::Isa::kAmx,    cpu::Isa::kNeon, cpu::Isa::kNeonMmla};

std::mt19937& rng() {
  static std::mt19937 engine(20261123);
  return engine;
}

float normal() { return std::normal_distribution<float>(0, 1)(rng()); }

std::vector<float> random_floats(int64_t n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = normal();
  return v;
}

double rounded(float v) { return bf16_to_float(float_to_bf16(v)); }

bool rounds_inputs(cpu::Isa isa) {
  return isa == cpu::Isa::kAvx512Bf16 || isa == cpu::Isa::kAmx || isa == cpu::Isa::kNeonMmla;
}

/// A product with its packed weights; x and dst have rows apart by gaps, dst and scratch lie between guards.
struct Product {
  static constexpr float kGuard = 12345.0f;
  static constexpr uint32_t kScratchGuard = 0x7fc07fc0u;  // two NaN
  cpu::Isa isa;
  int64_t m, n, k;
  std::vector<float> x, w, bias, dst;
  std::vector<uint32_t> packed, scratch;
  DenseSegment relu{{UnaryKind::kRelu, 0, 0}, 0, 0};
  bool with_relu = false;

  Product(cpu::Isa set, int64_t rows, int64_t out, int64_t in)
      : isa(set),
        m(rows),
        n(out),
        k(in),
        x(random_floats(rows * (in + 3))),
        w(random_floats(out * in)),
        bias(random_floats(out)) {
    relu.end = n;
  }
  int64_t ldx() const { return k + 3; }
  int64_t ldd() const { return n + 5; }

  void pack() {
    const cpu::Functions& f = cpu::functions(isa);
    packed.assign(static_cast<size_t>(f.gemm_bf16_words(n, k)), 0xffffffffu);
    f.gemm_bf16_pack(w.data(), n, k, packed.data());
  }

  /// Rows [first, first + rows).
  std::vector<float> run(int64_t first, int64_t rows) {
    const cpu::Functions& f = cpu::functions(isa);
    const auto words = static_cast<size_t>(f.gemm_bf16_scratch(rows, k)) / 4;
    scratch.assign(words + 2, kScratchGuard);
    dst.assign(static_cast<size_t>(rows * ldd() + 2), kGuard);
    cpu::GemmCall c;
    c.x = x.data() + first * ldx();
    c.packed = packed.data();
    c.scratch = scratch.data() + 1;
    c.bias = bias.data();
    c.dst = dst.data() + 1;
    c.m = rows;
    c.n = n;
    c.k = k;
    c.ldx = ldx();
    c.ldd = ldd();
    c.segments = &relu;
    c.n_segments = with_relu ? 1 : 0;
    f.gemm_bf16(c);
    CHECK(scratch.front() == kScratchGuard);
    CHECK(scratch.back() == kScratchGuard);
    return take(rows);
  }

  std::vector<float> take(int64_t rows) const {
    std::vector<float> out;
    int64_t touched = dst.front() != kGuard;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < ldd(); ++i) {
        const float v = dst[static_cast<size_t>(1 + r * ldd() + i)];
        if (i < n) out.push_back(v);
        if (i >= n) touched += v != kGuard;
      }
    }
    CHECK(touched == 0);
    return out;
  }

  /// The sum of row r and column c, and the sum of its terms' magnitudes.
  double want(int64_t r, int64_t c, double* size) const {
    double sum = bias[static_cast<size_t>(c)];
    *size = std::fabs(sum);
    for (int64_t i = 0; i < k; ++i) {
      const float in = x[static_cast<size_t>(r * ldx() + i)];
      const double term = rounded(w[static_cast<size_t>(c * k + i)]) *
                          (rounds_inputs(isa) ? rounded(in) : static_cast<double>(in));
      sum += term;
      *size += std::fabs(term);
    }
    return with_relu && sum < 0 ? 0 : sum;
  }

  /// The largest error in units of what float32 sums may have; infinite where anything is NaN.
  double error(const std::vector<float>& got) const {
    double worst = got.size() == static_cast<size_t>(m * n) ? 0 : INFINITY;
    for (size_t i = 0; i < got.size(); ++i) {
      double size = 0;
      const double should = want(static_cast<int64_t>(i) / n, static_cast<int64_t>(i) % n, &size);
      const double e = std::fabs(got[i] - should) / (1e-6 * size + 1e-30);
      if (!(e <= worst)) worst = std::isnan(e) ? INFINITY : e;
    }
    return worst;
  }
};

template <class Body>
void for_each_set(Body&& body) {
  for (const cpu::Isa isa : kSets) {
    if (!cpu::isa_supported(isa) || (isa == cpu::Isa::kAmx && !cpu::ask_for_tiles())) continue;
    CAPTURE(std::string(cpu::isa_name(isa)));
    body(isa);
  }
}

const std::vector<int64_t> kSizes = {1, 2, 7, 15, 16, 17, 31, 33, 47, 48, 49, 97, 130};

bool same_bits(const std::vector<float>& a, const float* b, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))) return false;
  }
  return a.size() == n;
}

}  // namespace

TEST_CASE("bf16: sums agree with float64 over what was rounded, and a row's bits are those of every batch") {
  for_each_set([](cpu::Isa isa) {
    for (const int64_t m :
         {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{7}, int64_t{9}, int64_t{16}, int64_t{67}}) {
      for (const int64_t n : kSizes) {
        const int64_t k = kSizes[rng()() % kSizes.size()];
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        Product p(isa, m, n, k);
        p.with_relu = m % 2 == 0;
        p.pack();
        const std::vector<float> all = p.run(0, m);
        CHECK(p.error(all) <= 1);
        const auto r = static_cast<int64_t>(rng()() % static_cast<uint64_t>(m));
        const int64_t rows = std::min<int64_t>(m - r, 1 + static_cast<int64_t>(rng()() % 5));
        CHECK(same_bits(p.run(r, rows), all.data() + r * n, static_cast<size_t>(rows * n)));
      }
    }
  });
}

TEST_CASE("bf16: more rows than a block") {
  for_each_set([](cpu::Isa isa) {
    Product p(isa, 310, 50, 1201);  // a block has 64 rows where tiles have 8, and 192 where they have 16
    p.pack();
    const std::vector<float> all = p.run(0, 310);
    CHECK(p.error(all) <= 1);
    CHECK(same_bits(p.run(309, 1), all.data() + 309 * 50, 50));
  });
}

TEST_CASE("bf16: rounding shows, so that the tests above see which operands are rounded") {
  for_each_set([](cpu::Isa isa) {
    Product p(isa, 5, 40, 64);
    p.pack();
    const std::vector<float> got = p.run(0, 5);
    CHECK(p.error(got) <= 1);
    Product other = p;
    other.isa = rounds_inputs(isa) ? cpu::Isa::kScalar : cpu::Isa::kAvx512Bf16;
    CHECK(other.error(got) > 10);
    other.isa = isa;
    for (float& v : other.w) v *= 1.002f;
    CHECK(other.error(got) > 10);
  });
}

TEST_CASE("bf16: NaN and infinities come out as they do in fp32") {
  for_each_set([](cpu::Isa isa) {
    for (const int64_t n : {int64_t{5}, int64_t{40}}) {
      for (const float special : {NAN, INFINITY, -INFINITY}) {
        Product p(isa, 4, n, 33);
        p.x[static_cast<size_t>(2 * p.ldx() + 32)] = special;  // the last of an odd depth
        p.w[33 * 3 + 32] = 0;
        p.pack();
        const std::vector<float> got = p.run(0, 4);
        for (int64_t i = 0; i < 4 * n; ++i) {
          double size = 0;
          const double want = p.want(i / n, i % n, &size);
          const float v = got[static_cast<size_t>(i)];
          const bool same = std::isnan(want)   ? std::isnan(v)
                            : std::isinf(want) ? v == want
                                               : std::isfinite(v);
          CHECK(same);
        }
      }
    }
  });
}

TEST_CASE("bf16: what is finite stays finite when it is rounded") {
  for_each_set([](cpu::Isa isa) {
    Product p(isa, 2, 40, 3);
    for (float& v : p.w) v = 0.5f;
    for (float& v : p.bias) v = 0;
    for (float& v : p.x) v = 0;
    p.x[0] = 3.4e38f;  // nearer to 2^128 than to the largest value of bf16
    p.x[static_cast<size_t>(p.ldx())] = -3.4e38f;
    p.pack();
    const std::vector<float> got = p.run(0, 2);
    const float half = rounds_inputs(isa) ? 0.5f * 0x1.fep127f : 0.5f * 3.4e38f;
    for (size_t i = 0; i < 80; ++i) CHECK(got[i] == (i < 40 ? half : -half));
  });
}

TEST_CASE("bf16: groups of a Linear, with and without slices") {
  for_each_set([](cpu::Isa isa) {
    const cpu::Functions& f = cpu::functions(isa);
    for (const int64_t groups : {int64_t{1}, int64_t{4}}) {
      const int64_t in = 19, out = 23, outer = 3, rows = 6;
      std::vector<float> w = random_floats(groups * out * in);
      for (float& v : w) v = static_cast<float>(rounded(v));
      std::vector<float> x = random_floats(rows * outer * in), b = random_floats(groups * out);
      if (rounds_inputs(isa)) {
        for (float& v : x) v = static_cast<float>(rounded(v));
      }
      std::vector<float> got(static_cast<size_t>(rows * outer * groups * out), NAN), want = got;
      LinearArgs a;
      a.attrs.groups = groups;
      a.x = {x.data(), rows, outer * in, groups > 1 ? Dims{3, {outer, 1, in}} : Dims{2, {outer, in}}};
      a.weight = {w.data(), groups > 1 ? Dims{3, {groups, out, in}} : Dims{2, {out, in}}};
      a.bias = {b.data(), groups > 1 ? Dims{2, {groups, out}} : Dims{1, {out}}};
      a.dst = {want.data(), rows, outer * groups * out,
               groups > 1 ? Dims{3, {outer, groups, out}} : Dims{2, {outer, out}}};
      ref::linear(a);
      a.dst.data = got.data();
      const int64_t words = f.gemm_bf16_words(out, in);
      std::vector<uint32_t> packed(static_cast<size_t>(groups * words));
      std::vector<uint32_t> scratch(static_cast<size_t>(f.gemm_bf16_scratch(rows * outer, in)) / 4 + 1);
      for (int64_t g = 0; g < groups; ++g)
        f.gemm_bf16_pack(w.data() + g * out * in, out, in, packed.data() + g * words);
      f.linear_packed(a, {packed.data(), words * 4, f.gemm_bf16, scratch.data()});
      for (size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - want[i]) <= 2e-5);
    }
  });
}

}  // namespace dpi::test::bf16_sets_test
