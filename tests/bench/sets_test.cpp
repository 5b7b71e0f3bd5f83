// Every instruction set of kernels/cpu against the reference, called directly: the tests in tests/kernels run
// the set that the device chooses, these run all that the processor has. Outputs start as NaN between guard
// bands; comparisons fail on NaN.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "bench/each_set.hpp"

namespace dpi::test::sets_test {
namespace {

using namespace dpi::kernels;

std::mt19937& rng() {
  static std::mt19937 engine(20260611);
  return engine;
}

float normal() { return std::normal_distribution<float>(0, 1)(rng()); }
int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(rng()); }

std::vector<float> random_floats(int64_t n) {
  std::vector<float> v(static_cast<size_t>(n) + 1);
  for (float& x : v) x = normal();
  return v;
}

Dims dims_of(std::initializer_list<int64_t> d) {
  Dims dims;
  for (const int64_t x : d) dims.d[dims.rank++] = x;
  return dims;
}

/// A value in a buffer of its own: unaligned, rows apart by a gap, guard bands all over.
struct Value {
  static constexpr float kGuard = 12345.0f;
  std::vector<float> buffer;
  Tensor t;

  Value(int64_t rows, const Dims& dims, bool output = false) {
    const int64_t n = dims.size(), gap = 3;
    t.rows = rows;
    t.dims = dims;
    t.row_stride = n + gap;
    buffer.assign(static_cast<size_t>(rows * t.row_stride + 37), kGuard);
    t.data = buffer.data() + 17;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < n; ++i) t.row(r)[i] = output ? NAN : normal();
    }
  }
  bool guards_intact() const {
    std::vector<char> inside(buffer.size(), 0);
    const int64_t n = t.dims.size();
    for (int64_t r = 0; r < t.rows; ++r) {
      for (int64_t i = 0; i < n; ++i) inside[static_cast<size_t>(17 + r * t.row_stride + i)] = 1;
    }
    for (size_t i = 0; i < buffer.size(); ++i) {
      if (inside[i] == 0 && buffer[i] != kGuard) return false;
    }
    return true;
  }
};

void check_close(const Value& got, const Value& want, double tolerance) {
  CHECK(got.guards_intact());
  const int64_t n = got.t.dims.size();
  int64_t bad = 0;
  double worst = 0;
  for (int64_t r = 0; r < got.t.rows; ++r) {
    for (int64_t i = 0; i < n; ++i) {
      const double g = got.t.row(r)[i], w = want.t.row(r)[i];
      if (std::isnan(w) && std::isnan(g)) continue;
      const double error = g == w ? 0 : std::fabs(g - w) / std::fmax(1.0, std::fabs(w));
      if (!(error <= tolerance)) ++bad;
      if (!(error <= worst)) worst = error;
    }
  }
  CAPTURE(worst);
  CHECK(bad == 0);
}

const std::vector<int64_t> kSizes = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 97, 257};

Param param(const std::vector<float>& v, std::initializer_list<int64_t> d) { return {v.data(), dims_of(d)}; }

}  // namespace

TEST_CASE("unary: every kind, every set") {
  for_each_set([](const cpu::Functions& f) {
    for (int kind = 0; kind <= static_cast<int>(UnaryKind::kSign); ++kind) {
      for (const int64_t n : kSizes) {
        CAPTURE(kind);
        CAPTURE(n);
        Value x(3, dims_of({n})), got(3, dims_of({n}), true), want(3, dims_of({n}), true);
        const std::vector<float> p0 = random_floats(n), p1 = random_floats(n), p2 = random_floats(n);
        for (int64_t i = 0; i < n; ++i) x.t.row(0)[i] *= 30.0f;
        UnaryArgs a;
        a.attrs = {static_cast<UnaryKind>(kind), 0.3f, 0.9f};
        a.x = x.t;
        if (a.attrs.kind == UnaryKind::kPow) a.attrs.a = 3;
        if (kind >= static_cast<int>(UnaryKind::kAffine)) {
          a.p0 = param(p0, {n});
          a.p1 = param(p1, {n});
          a.p2 = param(p2, {n});
        }
        a.dst = want.t;
        ref::unary(a);
        a.dst = got.t;
        f.unary(a);
        check_close(got, want, a.attrs.kind == UnaryKind::kDice ? 1e-5 : 1e-6);  // dice multiplies by x again
      }
    }
  });
}

TEST_CASE("exp, sigmoid and tanh: a few units in the last place, limits, NaN") {
  const UnaryKind kinds[] = {UnaryKind::kExp, UnaryKind::kSigmoid, UnaryKind::kTanh, UnaryKind::kElu};
  for_each_set([&](const cpu::Functions& f) {
    constexpr int64_t kCount = 20011;
    for (const UnaryKind kind : kinds) {
      CAPTURE(static_cast<int>(kind));
      Value x(1, dims_of({kCount})), got(1, dims_of({kCount}), true);
      for (int64_t i = 0; i < kCount; ++i) x.t.data[i] = -80.0f + 160.0f * static_cast<float>(i) / kCount;
      x.t.data[0] = NAN;
      x.t.data[1] = INFINITY;
      x.t.data[2] = -INFINITY;
      UnaryArgs a{{kind, 1, 0}, x.t, {}, {}, {}, got.t};
      f.unary(a);
      CHECK(std::isnan(got.t.data[0]));
      Value want(1, dims_of({kCount}), true);
      a.dst = want.t;
      ref::unary(a);
      CHECK(got.t.data[1] == want.t.data[1]);
      CHECK(got.t.data[2] == want.t.data[2]);
      int64_t bad = 0;
      for (int64_t i = 3; i < kCount; ++i) {
        const double w = want.t.data[i], unit = std::ldexp(1.0, std::ilogb(std::fabs(w) + 1e-37) - 23);
        if (!(std::fabs(got.t.data[i] - w) <= 4 * unit)) ++bad;
      }
      CHECK(bad == 0);
    }
  });
}

TEST_CASE("binary and elementwise: broadcasting") {
  const Dims shapes[] = {dims_of({5, 7, 33}), dims_of({33}), dims_of({7, 1}), dims_of({1}),
                         dims_of({5, 1, 33})};
  for_each_set([&](const cpu::Functions& f) {
    for (int kind = 0; kind <= static_cast<int>(BinaryKind::kAtan2); ++kind) {
      for (const Dims& d : shapes) {
        Value x(4, shapes[0]), y(4, d), got(4, shapes[0], true), want(4, shapes[0], true);
        if (kind == static_cast<int>(BinaryKind::kDiv)) {
          for (int64_t r = 0; r < 4; ++r) {
            for (int64_t i = 0; i < d.size(); ++i) y.t.row(r)[i] = 1.0f + std::fabs(y.t.row(r)[i]);
          }
        }
        BinaryArgs a{{static_cast<BinaryKind>(kind)}, x.t, y.t, got.t};
        f.binary(a);
        a.dst = want.t;
        ref::binary(a);
        check_close(got, want, 1e-6);
      }
    }
  });
}

TEST_CASE("gemm: segments, epilogues, and bits that do not depend on the batch") {
  for_each_set([](const cpu::Functions& f) {
    for (const int64_t m :
         {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{4}, int64_t{7}, int64_t{9}, int64_t{16}, int64_t{67}}) {
      for (const int64_t n : kSizes) {
        const int64_t k = kSizes[static_cast<size_t>(below(static_cast<int64_t>(kSizes.size())))];
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        Value x(m, dims_of({k})), mul(m, dims_of({n})), add(m, dims_of({n}));
        Value got(m, dims_of({n}), true), want(m, dims_of({n}), true), alone(1, dims_of({n}), true);
        const std::vector<float> w = random_floats(n * k), b = random_floats(n), p = random_floats(n);
        const DenseSegment segments[2] = {{{UnaryKind::kRelu, 0, 0}, 0, n / 2},
                                          {{UnaryKind::kPrelu, 0, 0}, n / 2, n}};
        DenseArgs a;
        a.attrs = {segments, 2};
        a.x = x.t;
        a.weight = param(w, {n, k});
        a.bias = param(b, {n});
        a.p0 = param(p, {n});
        const bool extra = below(2) == 0;
        if (extra) a.mul = mul.t;
        if (extra) a.add = add.t;
        a.dst = want.t;
        ref::dense(a);
        std::vector<float> packed(static_cast<size_t>(f.gemm_packed_floats(n, k)));
        f.gemm_pack(w.data(), n, k, packed.data());
        cpu::GemmCall c;
        c.x = x.t.data;
        c.packed = packed.data();
        c.bias = b.data();
        c.mul = a.mul.data;
        c.add = a.add.data;
        c.dst = got.t.data;
        c.m = m;
        c.n = n;
        c.k = k;
        c.ldx = x.t.row_stride;
        c.ldd = got.t.row_stride;
        c.ld_mul = mul.t.row_stride;
        c.ld_add = add.t.row_stride;
        c.segments = segments;
        c.n_segments = 2;
        c.p[0] = p.data();
        f.gemm(c);
        check_close(got, want, 5e-5);  // mul enlarges what sums of up to 257 terms lose
        const int64_t r = below(m);
        c.x = x.t.row(r);
        c.mul = extra ? mul.t.row(r) : nullptr;
        c.add = extra ? add.t.row(r) : nullptr;
        c.dst = alone.t.data;
        c.m = 1;
        f.gemm(c);
        CHECK(std::memcmp(alone.t.data, got.t.row(r), static_cast<size_t>(n) * sizeof(float)) == 0);
      }
    }
  });
}

TEST_CASE("gemm: a sum of -0 has the same sign in every number of rows, with a bias and without") {
  for_each_set([](const cpu::Functions& f) {
    for (const int64_t n : {int64_t{48}, int64_t{96}, int64_t{200}}) {
      const int64_t rows = 9;
      Value x(rows, dims_of({1})), all(rows, dims_of({n}), true);
      for (int64_t r = 0; r < rows; ++r) *x.t.row(r) = 1e-30f;
      const std::vector<float> w(static_cast<size_t>(n), -1e-30f), b(static_cast<size_t>(n), -0.0f);
      const std::vector<float> slopes(static_cast<size_t>(n), 0.5f);
      std::vector<float> packed(static_cast<size_t>(f.gemm_packed_floats(n, 1)));
      f.gemm_pack(w.data(), n, 1, packed.data());
      const DenseSegment segments[2] = {{{UnaryKind::kIdentity, 0, 0}, 0, n / 2},
                                        {{UnaryKind::kPrelu, 0, 0}, n / 2, n}};
      for (const float* bias : {b.data(), static_cast<const float*>(nullptr)}) {
        cpu::GemmCall c;
        c.x = x.t.data;
        c.packed = packed.data();
        c.bias = bias;
        c.dst = all.t.data;
        c.m = rows;
        c.n = n;
        c.k = 1;
        c.ldx = x.t.row_stride;
        c.ldd = all.t.row_stride;
        c.segments = segments;
        c.n_segments = 2;
        c.p[0] = slopes.data();
        f.gemm(c);
        Value few(rows, dims_of({n}), true);
        for (c.m = 1; c.m < rows; ++c.m) {
          CAPTURE(n);
          CAPTURE(c.m);
          CAPTURE(bias != nullptr);
          c.dst = few.t.data;
          c.ldd = few.t.row_stride;
          f.gemm(c);
          CHECK(std::memcmp(few.t.data, all.t.data, static_cast<size_t>(n) * sizeof(float)) == 0);
        }
      }
    }
  });
}

TEST_CASE("gemm: columns in parts have the bits of the whole, and rows alone those of a batch") {
  for_each_set([](const cpu::Functions& f) {
    for (const int64_t n :
         {int64_t{1}, int64_t{24}, int64_t{25}, int64_t{96}, int64_t{97}, int64_t{200}, int64_t{451}}) {
      const int64_t k = 19, rows = 9;
      Value x(rows, dims_of({k})), whole(rows, dims_of({n}), true);
      const std::vector<float> w = random_floats(n * k), b = random_floats(n);
      std::vector<float> packed(static_cast<size_t>(f.gemm_packed_floats(n, k)));
      f.gemm_pack(w.data(), n, k, packed.data());
      cpu::GemmCall c;
      c.packed = packed.data();
      c.bias = b.data();
      c.n = n;
      c.k = k;
      c.ldx = x.t.row_stride;
      c.ldd = whole.t.row_stride;
      c.x = x.t.data;
      c.dst = whole.t.data;
      c.m = rows;
      f.gemm(c);
      for (c.m = 1; c.m <= 5; ++c.m) {
        for (c.parts = 1; c.parts <= 4; ++c.parts) {
          CAPTURE(n);
          CAPTURE(c.m);
          CAPTURE(c.parts);
          Value got(c.m, dims_of({n}), true);
          c.ldd = got.t.row_stride;
          c.dst = got.t.data;
          for (c.part = 0; c.part < c.parts; ++c.part) f.gemm(c);
          for (int64_t r = 0; r < c.m; ++r)
            CHECK(std::memcmp(got.t.row(r), whole.t.row(r), static_cast<size_t>(n) * sizeof(float)) == 0);
          CHECK(got.guards_intact());
        }
      }
    }
  });
}

TEST_CASE("rows: softmax, layer norm, reduce, cross, fm") {
  for_each_set([](const cpu::Functions& f) {
    for (const int64_t n : kSizes) {
      CAPTURE(n);
      Value x(3, dims_of({4, n})), mask(3, dims_of({4, n})), got(3, dims_of({4, n}), true),
          want(3, dims_of({4, n}), true);
      for (int64_t r = 0; r < 3; ++r) {
        for (int64_t i = 0; i < 4 * n; ++i) mask.t.row(r)[i] = i < n || below(3) == 0 ? 0.0f : 1.0f;
      }
      for (int mode = 0; mode <= 3; ++mode) {
        CAPTURE(mode);
        SoftmaxArgs a;
        a.attrs = {1, static_cast<SoftmaxMask>(mode), -1e9f};
        a.x = x.t;
        if (mode != 0) a.mask = mask.t;
        a.dst = want.t;
        ref::softmax(a);
        a.dst = got.t;
        f.softmax(a);
        check_close(got, want, 1e-6);
      }
      const std::vector<float> gamma = random_floats(4 * n), beta = random_floats(n);
      LayerNormArgs ln{{1e-5f}, x.t, param(gamma, {4, n}), param(beta, {n}), want.t};
      ref::layer_norm(ln);
      ln.dst = got.t;
      f.layer_norm(ln);
      check_close(got, want, 1e-5);
      for (int kind = 0; kind <= 3; ++kind) {
        for (int axis = 0; axis <= 1; ++axis) {
          CAPTURE(kind);
          CAPTURE(axis);
          const Dims out = axis == 0 ? dims_of({n}) : dims_of({4});
          Value m0(3, dims_of({4})), y(3, out, true), z(3, out, true);
          for (int64_t r = 0; r < 3; ++r) {
            for (int64_t i = 0; i < 4; ++i) m0.t.row(r)[i] = r == 0 ? 0.0f : static_cast<float>(below(2));
          }
          ReduceArgs a;
          a.attrs = {static_cast<ReduceKind>(kind), axis, 0, 1e-8f, 0.25f};
          a.x = x.t;
          a.mask = axis == 0 ? m0.t : mask.t;
          a.dst = z.t;
          ref::reduce(a);
          a.dst = y.t;
          f.reduce(a);
          check_close(y, z, 1e-5);
        }
      }
      Value x0(3, dims_of({n})), y(3, dims_of({n}), true), z(3, dims_of({n}), true);
      std::vector<float> w = random_floats(3 * n);
      const std::vector<float> b = random_floats(3 * n);
      for (float& v : w) v *= 1.0f / static_cast<float>(n);
      CrossV1Args cross{{3}, x0.t, param(w, {3, n}), param(b, {3, n}), z.t};
      ref::cross_v1(cross);
      cross.dst = y.t;
      f.cross_v1(cross);
      check_close(y, z, 1e-5);
      Value s(3, dims_of({1}), true), t(3, dims_of({1}), true);
      FmArgs fm{{4, n}, x.t, t.t};
      ref::fm(fm);
      fm.dst = s.t;
      f.fm(fm);
      check_close(s, t, 1e-4);
    }
  });
}

TEST_CASE("products: matmul with transposes, linear over both axes") {
  for_each_set([](const cpu::Functions& f) {
    for (int mode = 0; mode < 4; ++mode) {
      const int64_t m = 6, k = 21, n = 37;
      const bool ta = (mode & 1) != 0, tb = (mode & 2) != 0;
      Value a(3, ta ? dims_of({2, k, m}) : dims_of({2, m, k})),
          b(3, tb ? dims_of({1, n, k}) : dims_of({1, k, n}));
      Value got(3, dims_of({2, m, n}), true), want(3, dims_of({2, m, n}), true);
      MatMulArgs args{{ta ? 1 : 0, tb ? 1 : 0, 0.5f}, a.t, b.t, want.t};
      ref::matmul(args);
      args.dst = got.t;
      f.matmul(args);
      check_close(got, want, 1e-5);
    }
    for (const int64_t groups : {int64_t{1}, int64_t{5}}) {
      for (const int64_t x_groups : {int64_t{1}, groups}) {
        const int64_t in = 19, out = 23;
        Value x(4, groups > 1 ? dims_of({3, x_groups, in}) : dims_of({3, in}));
        const Dims d = groups > 1 ? dims_of({3, groups, out}) : dims_of({3, out});
        Value got(4, d, true), want(4, d, true), packed_got(4, d, true);
        const std::vector<float> w = random_floats(groups * out * in), b = random_floats(groups * out);
        LinearArgs args;
        args.attrs.groups = groups;
        args.x = x.t;
        args.weight = groups > 1 ? param(w, {groups, out, in}) : param(w, {out, in});
        args.bias = groups > 1 ? param(b, {groups, out}) : param(b, {out});
        args.dst = want.t;
        ref::linear(args);
        args.dst = got.t;
        f.linear(args);
        check_close(got, want, 1e-5);
        const int64_t size = f.gemm_packed_floats(out, in);
        std::vector<float> packed(static_cast<size_t>(groups * size));
        for (int64_t g = 0; g < groups; ++g)
          f.gemm_pack(w.data() + g * out * in, out, in, packed.data() + g * size);
        args.dst = packed_got.t;
        f.linear_packed(args, {packed.data(), size * 4, f.gemm, nullptr});
        check_close(packed_got, want, 1e-5);
      }
    }
    Value x(2, dims_of({11, 18})), got(2, dims_of({5, 18}), true), want(2, dims_of({5, 18}), true);
    const std::vector<float> w = random_floats(55), b = random_floats(5);
    LinearArgs args;
    args.attrs.axis = LinearAxis::kField;
    args.x = x.t;
    args.weight = param(w, {5, 11});
    args.bias = param(b, {5});
    args.dst = want.t;
    ref::linear(args);
    args.dst = got.t;
    f.linear(args);
    check_close(got, want, 1e-5);
  });
}

}  // namespace dpi::test::sets_test
