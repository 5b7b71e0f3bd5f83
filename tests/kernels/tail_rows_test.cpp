// The op Tail called directly over the emulation: branches that lie on 16 bytes and branches that do not,
// against sums of whole numbers; and that a row's bits are the same wherever and beside whatever it lies.
#include "kernels/cuda/kernels.hpp"
#include "typed_matrix.hpp"

namespace dpi::test::tail_rows_test {
namespace {

using kernels::DType;

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

/// Branches of one Tail; those of width 0 are scalars.
struct Tail {
  int64_t rows;
  std::vector<Matrix> x;
  std::vector<std::vector<float>> w;  // with three floats in front of each that are not its own
  std::vector<int64_t> shift;         // floats that a branch's weights lie off 16 bytes

  explicit Tail(int64_t n) : rows(n) {}

  template <class F, class G>
  void add(int64_t width, DType type, int64_t padding, size_t offset, int64_t off, const F& value,
           const G& weight) {
    const auto seed = static_cast<int64_t>(x.size());
    x.emplace_back(rows, width == 0 ? 1 : width, type, padding, offset);
    x.back().fill([&](int64_t r, int64_t c) { return value(r, c, seed); });
    w.emplace_back(static_cast<size_t>(width == 0 ? 0 : width + 8), NAN);
    shift.push_back(width == 0 ? 0 : first_of(w.back()) + off);
    for (int64_t c = 0; c < width; ++c) w.back()[static_cast<size_t>(shift.back() + c)] = weight(c, seed);
  }

  std::vector<float> run(float bias) {
    std::vector<kernels::Operand> inputs(x.size());
    std::vector<kernels::Param> weights(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      inputs[i].tensor = x[i].tensor();
      if (!w[i].empty()) weights[i] = {w[i].data() + shift[i], inputs[i].tensor.dims};
    }
    Matrix logit(rows, 1, DType::kF32, 2), value(rows, 1, DType::kF32);
    kernels::TailArgs a;
    a.attrs.bias = bias;
    a.attrs.act.kind = kernels::UnaryKind::kAbs;
    a.inputs = inputs.data();
    a.weights = weights.data();
    a.n_inputs = static_cast<int64_t>(x.size());
    a.rows = rows;
    a.logit = logit.tensor();
    a.value = value.tensor();
    run_emulated([&](emu::Stream* s) { return kernels::cuda::tail(a, s); });
    std::vector<float> got;
    for (int64_t r = 0; r < rows; ++r) {
      got.push_back(logit.get(r, 0));
      CHECK((value.get(r, 0) == std::fabs(got.back()) || std::isnan(got.back())));
    }
    CHECK(logit.outside_unchanged());
    CHECK(value.outside_unchanged());
    return got;
  }

  double want(int64_t r, double bias) const {
    double sum = bias;
    for (size_t i = 0; i < x.size(); ++i) {
      if (w[i].empty()) sum += x[i].get(r, 0);
      for (int64_t c = 0; c + 8 < static_cast<int64_t>(w[i].size()); ++c)
        sum += double{x[i].get(r, c)} * w[i][static_cast<size_t>(shift[i] + c)];
    }
    return sum;
  }

 private:
  static int64_t first_of(const std::vector<float>& v) {
    return static_cast<int64_t>((16 - reinterpret_cast<uintptr_t>(v.data()) % 16) % 16 / 4);
  }
};

float whole(int64_t r, int64_t c, int64_t seed) { return small_number(r, c, 8, seed); }
float whole_weight(int64_t c, int64_t seed) { return small_number(99, c, 4, seed); }

TEST_CASE("tail: branches of every width, type and place, and scalars, are summed exactly") {
  for (const int64_t width : {1, 3, 4, 7, 8, 31, 64, 100, 255, 400, 511, 512, 513, 1030}) {
    for (const DType type : kTypes) {
      const auto size = static_cast<size_t>(kernels::dtype_bytes(type));
      const int64_t in_16 = 16 / static_cast<int64_t>(size);
      const int64_t to_16 = (in_16 - width % in_16) % in_16;
      struct Place {
        int64_t padding;
        size_t offset;
        int64_t shift;
      };
      for (const Place& p : {Place{to_16, 0, 0}, Place{to_16 + in_16, 16, 0}, Place{to_16 + 1, 0, 0},
                             Place{to_16, size, 0}, Place{to_16, 0, 1}}) {
        CAPTURE(width);
        CAPTURE(static_cast<int>(type));
        CAPTURE(p.padding);
        CAPTURE(p.offset);
        CAPTURE(p.shift);
        Tail t(7);
        t.add(0, DType::kF32, 0, 0, 0, whole, whole_weight);
        t.add(width, type, p.padding, p.offset, p.shift, whole, whole_weight);
        t.add(0, type, 1, size, 0, whole, whole_weight);
        t.add(20, DType::kBF16, 0, 0, 0, whole, whole_weight);
        const std::vector<float> got = t.run(5);
        for (int64_t r = 0; r < 7; ++r) CHECK(got[static_cast<size_t>(r)] == t.want(r, 5));
      }
    }
  }
}

TEST_CASE("tail: as many scalars as there can be, none, and no rows") {
  Tail many(5);
  for (int i = 0; i < kernels::cuda::kMaxTailInputs; ++i)
    many.add(0, kTypes[i % 3], i % 2, 0, 0, whole, whole_weight);
  const std::vector<float> got = many.run(-3);
  for (int64_t r = 0; r < 5; ++r) CHECK(got[static_cast<size_t>(r)] == many.want(r, -3));
  Tail none(0);
  none.add(16, DType::kF32, 0, 0, 0, whole, whole_weight);
  CHECK(none.run(1).empty());
}

TEST_CASE("tail: a NaN shows in its row only, wherever it lies") {
  for (const int64_t padding : {0, 1}) {
    for (const int64_t column : {0, 255, 403, 404, 406}) {
      CAPTURE(column);
      Tail t(9);
      t.add(407, DType::kF16, 1 + padding, 0, 0, whole, whole_weight);
      t.x[0].set(4, column, NAN);
      const std::vector<float> got = t.run(0);
      for (size_t r = 0; r < 9; ++r) CHECK(std::isnan(got[r]) == (r == 4));
    }
  }
}

TEST_CASE("tail: a row's bits depend neither on where it lies nor on the rows beside it") {
  const auto value = [](int64_t r, int64_t c, int64_t seed) { return any_number(r, c, seed); };
  const auto weight = [](int64_t c, int64_t seed) { return any_number(99, c, seed); };
  for (const DType type : kTypes) {
    for (const int64_t width : {61, 400, 1030}) {
      const auto logits = [&](int64_t rows, int64_t padding, size_t offset, int64_t shift) {
        Tail t(rows);
        t.add(width, type, padding, offset, shift, value, weight);
        t.add(0, DType::kF32, padding, 0, 0, value, weight);
        return t.run(0.1f);
      };
      const int64_t to_16 = (8 - width % 8) % 8;
      const std::vector<float> together = logits(33, to_16, 0, 0);
      for (const auto& other : {logits(33, to_16 + 1, 0, 0), logits(33, to_16, 4, 0), logits(33, to_16, 0, 3),
                                logits(1, to_16, 0, 0), logits(6, to_16 + 8, 32, 0)}) {
        CHECK(std::memcmp(together.data(), other.data(), other.size() * sizeof(float)) == 0);
      }
    }
  }
}

}  // namespace
}  // namespace dpi::test::tail_rows_test
