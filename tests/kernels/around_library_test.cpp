// What runs before and after a product of a vendor library, called directly over the emulation: rows in fours
// and rows that are not, against sums of whole numbers, which every type and order gives exactly.
#include "kernels/cuda/gemm/gemm.hpp"
#include "typed_matrix.hpp"

namespace dpi::test::around_library_test {
namespace {

using kernels::DType;
using kernels::UnaryKind;
namespace cuda = kernels::cuda;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

struct Lie {
  int64_t padding;
  size_t offset;
};
/// Of rows: in fours where the width is a multiple of 4; in fours by their padding; neither; odd bases.
std::vector<Lie> lies(int64_t width, DType type) {
  const auto size = static_cast<size_t>(kernels::dtype_bytes(type));
  return {{0, 0}, {(4 - width % 4) % 4 + 4, 0}, {1, 0}, {(4 - width % 4) % 4, size}};
}

/// `v` with 11 bits of mantissa, ties away from zero.
double tf32(double v) {
  if (!std::isfinite(v) || v == 0) return v;
  int e = 0;
  const double m = std::frexp(v, &e);
  return std::ldexp(std::round(std::ldexp(m, 11)), e - 11);
}

struct Extent {
  int64_t rows, width;
};
/// The last two are enough for threads with two and four rows.
constexpr Extent kExtents[] = {{1, 1},  {3, 4},    {5, 31},    {2, 33},    {7, 100},
                               {9, 97}, {33, 128}, {450, 640}, {1051, 624}};

TEST_CASE("split rows: slabs of low, high, high, zeros past the width") {
  for (const Extent& e : kExtents) {
    for (const DType type : kTypes) {
      for (const Lie& lie : lies(e.width, type)) {
        for (int64_t slabs = 1; slabs <= 3; ++slabs) {
          if (e.rows > 100 && (slabs == 2 || type == DType::kBF16)) continue;  // time
          CAPTURE(e.rows);
          CAPTURE(e.width);
          CAPTURE(slabs);
          CAPTURE(lie.padding);
          CAPTURE(lie.offset);
          Matrix x(e.rows, e.width, type, lie.padding, lie.offset);
          x.fill([](int64_t r, int64_t c) { return any_number(r, c, 1); });
          const int64_t depth = cuda::split_depth(e.width, slabs);
          REQUIRE(depth % 32 == 0);
          REQUIRE(depth * slabs >= e.width);
          Matrix to(e.rows, slabs * 3 * depth, DType::kF32);
          run_emulated([&](emu::Stream* s) { return cuda::split_rows(x.tensor(), to.floats(), slabs, s); });
          bool right = true;
          for (int64_t r = 0; r < e.rows; ++r) {
            for (int64_t c = 0; c < slabs * depth; ++c) {
              const double v = c < e.width ? x.get(r, c) : 0;
              const int64_t at = c / depth * 3 * depth + c % depth;
              right = right && to.get(r, at) == tf32(v - tf32(v)) && to.get(r, at + depth) == tf32(v) &&
                      to.get(r, at + 2 * depth) == tf32(v);
            }
          }
          CHECK(right);
          CHECK(to.outside_unchanged());
        }
      }
    }
  }
}

TEST_CASE("split rows: a NaN stays in its place, no rows are no work, bytes off the alignment are refused") {
  for (const int64_t padding : {0, 1}) {
    Matrix x(6, 40, DType::kF32, padding);
    x.fill([](int64_t r, int64_t c) { return r == 4 && c == 37 ? NAN : 1.0f; });
    Matrix to(6, 192, DType::kF32);
    run_emulated([&](emu::Stream* s) { return cuda::split_rows(x.tensor(), to.floats(), 1, s); });
    for (int64_t r = 0; r < 6; ++r) {
      for (int64_t c = 0; c < 192; ++c) CHECK(std::isnan(to.get(r, c)) == (r == 4 && c % 64 == 37));
    }
    kernels::Tensor none = x.tensor();
    none.rows = 0;
    CHECK(cuda::split_rows(none, to.floats(), 2, nullptr) == 0);
    CHECK(cuda::convert_rows(none, to.floats(), DType::kF16, 64, nullptr) == 0);
    CHECK(cuda::split_rows(x.tensor(), to.floats() + 1, 1, nullptr) != 0);
    CHECK(cuda::convert_rows(x.tensor(), to.floats() + 1, DType::kF32, 64, nullptr) != 0);
    CHECK(cuda::convert_rows(x.tensor(), to.floats(), DType::kF32, 62, nullptr) != 0);
  }
}

TEST_CASE("convert rows: every type to every other, zeros past the width, what is finite stays finite") {
  for (const Extent& e : kExtents) {
    for (const DType from : kTypes) {
      for (const DType type : kTypes) {
        for (const Lie& lie : lies(e.width, from)) {
          if (e.rows > 100 && from == type) continue;  // time
          CAPTURE(e.rows);
          CAPTURE(e.width);
          CAPTURE(lie.padding);
          CAPTURE(lie.offset);
          Matrix x(e.rows, e.width, from, lie.padding, lie.offset);
          x.fill([](int64_t r, int64_t c) { return small_number(r, c, 128, 2); });
          const bool large = from != DType::kF16;  // 2^20 is a number of theirs
          x.set(e.rows - 1, e.width - 1, large ? 1048576.0f : INFINITY);
          if (e.width > 1) x.set(e.rows / 2, 0, NAN);
          const int64_t stride = cuda::packed_depth(e.width);
          Matrix to(e.rows, stride, type);
          run_emulated([&](emu::Stream* s) {
            return cuda::convert_rows(x.tensor(), to.tensor().data, type, stride, s);
          });
          bool right = true;
          for (int64_t r = 0; r < e.rows; ++r) {
            for (int64_t c = 0; c < stride; ++c) {
              const float got = to.get(r, c);
              float want = c < e.width ? small_number(r, c, 128, 2) : 0;
              if (r == e.rows - 1 && c == e.width - 1)
                want = !large ? INFINITY : type == DType::kF16 ? 65504.0f : 1048576.0f;
              const bool nan = r == e.rows / 2 && c == 0 && e.width > 1;
              right = right && (nan ? std::isnan(got) : got == want);
            }
          }
          CHECK(right);
          CHECK(to.outside_unchanged());
        }
      }
    }
  }
}

/// A Dense whose sums are there, all of it small whole numbers.
struct End {
  struct Form {
    DType mul = DType::kF32, add = DType::kF32, shared = DType::kF32, dst = DType::kF32;
    bool has_mul = true, has_add = true, has_shared = false, mapped = false, has_bias = true;
    int acts = 1;  // segments: relu; prelu, affine; identity, prelu, relu
    Lie sums = {0, 0}, others = {0, 0};
    enum Over { kNothing, kAdd, kSums } over = kNothing;  // where dst lies
  };

  Extent e;
  Form f;
  Matrix sums, mul, add, shared, dst;
  std::vector<float> bias, slope, zero;
  std::vector<int32_t> map;
  std::vector<kernels::DenseSegment> segments;

  End(const Extent& extent, const Form& form)
      : e(extent),
        f(form),
        sums(e.rows, e.width, DType::kF32, f.sums.padding, f.sums.offset),
        mul(e.rows, e.width, f.mul, f.others.padding, f.others.offset),
        add(e.rows, e.width, f.add, f.others.padding, f.others.offset),
        shared(3, e.width, f.shared, f.others.padding, f.others.offset),
        dst(e.rows, e.width, f.dst, f.others.padding, f.others.offset) {
    sums.fill([](int64_t r, int64_t c) { return small_number(r, c, 8, 1); });
    mul.fill([](int64_t r, int64_t c) { return small_number(r, c, 3, 2); });
    add.fill([](int64_t r, int64_t c) { return small_number(r, c, 8, 3); });
    shared.fill([](int64_t r, int64_t c) { return small_number(r, c, 4, 4); });
    for (int64_t c = 0; c < e.width; ++c) {
      bias.push_back(small_number(0, c, 3, 5));
      slope.push_back(small_number(0, c, 1, 6));
      zero.push_back(small_number(0, c, 2, 7));
    }
    for (int64_t r = 0; r < e.rows; ++r) map.push_back(static_cast<int32_t>((r * 5 + 1) % 3));
    constexpr UnaryKind kActs[3][3] = {{UnaryKind::kRelu},
                                       {UnaryKind::kPrelu, UnaryKind::kAffine},
                                       {UnaryKind::kIdentity, UnaryKind::kPrelu, UnaryKind::kRelu}};
    for (int s = 0; s < f.acts; ++s) {
      kernels::DenseSegment g;
      g.act.kind = kActs[f.acts - 1][s];
      g.begin = segments.empty() ? 0 : segments.back().end;
      g.end = e.width * (s + 1) / f.acts;
      segments.push_back(g);
    }
  }

  double activated(double h, int64_t c) const {
    for (const kernels::DenseSegment& g : segments) {
      if (c >= g.end) continue;
      const auto k = static_cast<size_t>(c);
      if (g.act.kind == UnaryKind::kRelu) return h < 0 ? 0 : h;
      if (g.act.kind == UnaryKind::kPrelu) return h < 0 ? h * slope[k] : h;
      if (g.act.kind == UnaryKind::kAffine) return h * slope[k] + zero[k];
      return h;
    }
    return NAN;
  }

  double want(int64_t r, int64_t c) const {
    double h = sums.get(r, c) + (f.has_bias ? bias[static_cast<size_t>(c)] : 0);
    if (f.has_shared) h += shared.get(f.mapped ? map[static_cast<size_t>(r)] : r, c);
    const double y = activated(h, c) * (f.has_mul ? mul.get(r, c) : 1) + (f.has_add ? add.get(r, c) : 0);
    return f.dst == DType::kF16 && y > 65504 ? 65504 : y;
  }

  kernels::Tensor target() {
    return f.over == Form::kAdd ? add.tensor() : f.over == Form::kSums ? sums.tensor() : dst.tensor();
  }
  Matrix& result() { return f.over == Form::kAdd ? add : f.over == Form::kSums ? sums : dst; }

  void run() {
    kernels::DenseArgs a;
    a.attrs = {segments.data(), static_cast<int32_t>(segments.size())};
    if (f.has_bias) a.bias = {bias.data(), {1, {e.width}}};
    a.p0 = {slope.data(), {1, {e.width}}};
    a.p1 = {zero.data(), {1, {e.width}}};
    if (f.has_mul) a.mul = mul.tensor();
    if (f.has_add) a.add = add.tensor();
    if (f.has_shared) a.shared = shared.tensor();
    if (f.mapped) a.row_map = map.data();
    a.dst = target();
    run_emulated([&](emu::Stream* s) { return cuda::finish_dense(a, sums.floats(), sums.stride(), s); });
  }

  bool right() {
    std::vector<double> wanted;
    for (int64_t r = 0; r < e.rows; ++r) {
      for (int64_t c = 0; c < e.width; ++c) wanted.push_back(want(r, c));
    }
    run();
    bool same = true;
    for (int64_t r = 0; r < e.rows; ++r) {
      for (int64_t c = 0; c < e.width; ++c) {
        const double w = wanted[static_cast<size_t>(r * e.width + c)];
        const double got = result().get(r, c);
        same = same && (std::isnan(w) ? std::isnan(got) : got == w);
      }
    }
    return same && result().outside_unchanged();
  }
};

std::vector<End::Form> forms() {
  using Form = End::Form;
  Form plain;
  std::vector<Form> all = {plain};
  Form f;
  f.has_mul = f.has_add = f.has_bias = false;
  f.over = Form::kSums;
  all.push_back(f);
  f = plain;
  f.over = Form::kAdd;
  all.push_back(f);
  f.acts = 2;
  f.over = Form::kSums;
  all.push_back(f);
  f = plain;
  f.acts = 3;
  f.mul = DType::kF16;
  f.add = f.dst = DType::kBF16;
  f.has_shared = f.mapped = true;
  f.shared = DType::kF16;
  all.push_back(f);
  f.add = f.dst = DType::kF16;
  f.over = Form::kAdd;
  f.has_bias = false;
  all.push_back(f);
  f = plain;
  f.mul = f.shared = DType::kBF16;
  f.dst = DType::kF16;
  f.has_shared = f.mapped = true;
  f.has_add = false;
  all.push_back(f);
  return all;
}

TEST_CASE("finish: every end of a Dense, rows in fours and rows that are not") {
  for (const Extent& e : kExtents) {
    const int64_t to_four = (4 - e.width % 4) % 4;
    for (const Lie& sums : {Lie{to_four, 0}, Lie{to_four + 1, 0}, Lie{to_four, 4}}) {
      for (const Lie& others :
           {Lie{to_four, 0}, Lie{to_four + 4, 16}, Lie{to_four + 2, 0}, Lie{to_four, 4}}) {
        if (e.rows > 100 && (sums.offset != 0 || others.offset == 4)) continue;  // time
        int number = 0;
        for (End::Form form : forms()) {
          CAPTURE(number++);
          CAPTURE(e.rows);
          CAPTURE(e.width);
          CAPTURE(sums.padding);
          CAPTURE(sums.offset);
          CAPTURE(others.padding);
          CAPTURE(others.offset);
          form.sums = sums;
          form.others = others;
          End end(e, form);
          CHECK(end.right());
        }
      }
    }
  }
}

TEST_CASE("finish: NaN stays in its place, 16 bits saturate, no rows are no work") {
  for (const int64_t padding : {0, 4, 5}) {
    for (const int acts : {1, 2}) {
      End::Form form;
      form.dst = DType::kF16;
      form.acts = acts;
      form.sums = {padding, 0};
      form.has_mul = false;
      End end({5, 24}, form);
      end.sums.set(3, 17, NAN);
      end.sums.set(2, 9, 0);
      end.bias[9] = 0;
      end.add.set(2, 9, 3e9f);
      CHECK(end.right());
      CHECK(end.dst.get(2, 9) == 65504.0f);
      CHECK(std::isnan(end.dst.get(3, 17)));
      End none({0, 24}, form);
      CHECK(none.right());
    }
  }
}

TEST_CASE("finish: a result's bits do not depend on where rows lie, nor on how many there are") {
  const auto bits = [](int64_t rows, int64_t padding, UnaryKind kind) {
    End::Form form;
    form.sums = form.others = {padding, 0};
    End end({rows, 52}, form);
    end.segments[0].act.kind = kind;
    end.sums.fill([](int64_t r, int64_t c) { return any_number(r, c, 1); });
    end.mul.fill([](int64_t r, int64_t c) { return any_number(r, c, 2); });
    end.add.fill([](int64_t r, int64_t c) { return any_number(r, c, 3); });
    end.run();
    std::vector<float> got;
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < 52; ++c) got.push_back(end.dst.get(r, c));
    }
    return got;
  };
  for (const UnaryKind kind :
       {UnaryKind::kIdentity, UnaryKind::kRelu, UnaryKind::kSigmoid, UnaryKind::kTanh, UnaryKind::kGeluErf}) {
    const std::vector<float> fours = bits(3, 0, kind);
    bool any = false;
    for (const float v : fours) any = any || v != 0;
    CHECK(any);
    for (const int64_t rows : {3, 1700, 11000}) {
      for (const int64_t padding : {0, 1, 4}) {
        if (rows == 11000 && (padding != 0 || kind != UnaryKind::kSigmoid)) continue;  // time
        const std::vector<float> other = bits(rows, padding, kind);
        CHECK(std::memcmp(fours.data(), other.data(), fours.size() * sizeof(float)) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace dpi::test::around_library_test
