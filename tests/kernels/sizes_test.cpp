// Every size of shapes.hpp in the inner dims of the ops whose kernels work in blocks: the device against
// `ref`.
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "support/recorded.hpp"
#include "support/shapes.hpp"

namespace dpi::test::sizes_test {
namespace {

using kernels::Dims;
using kernels::OpKind;

// The same numbers every time, between -1 and 1, without the library's distributions (they differ between
// libraries).
class Numbers {
 public:
  std::vector<float> take(int64_t n) {
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) {
      state_ = state_ * 6364136223846793005u + 1442695040888963407u;
      x = static_cast<float>(static_cast<int32_t>(state_ >> 32)) * 0x1p-31f;
    }
    return v;
  }

 private:
  uint64_t state_ = 42;
};

constexpr int64_t kRows = 5;

struct Maker {
  Numbers numbers;

  CaseValue value(Dims dims) {
    CaseValue v;
    v.present = true;
    v.dims = dims;
    v.rows = kRows;
    v.data = numbers.take(kRows * dims.size());
    return v;
  }
  CaseParam param(Dims dims) { return {true, dims, numbers.take(dims.size())}; }

  OpCase make(OpKind kind, const std::string& name, OpAttrs attrs, std::vector<Dims> inputs, Dims output) {
    OpCase c;
    c.name = name;
    c.kind = kind;
    c.attrs = attrs;
    c.rows = kRows;
    for (const Dims& d : inputs) c.inputs.push_back(value(d));
    c.outputs = {value(output)};
    return c;
  }
};

std::vector<OpCase> dense_cases(int64_t in) {
  Maker m;
  std::vector<OpCase> cases;
  for (const int64_t out : kAwkwardSizes) {
    if (out == 0) continue;
    const std::string name = std::to_string(in) + "x" + std::to_string(out);
    OpCase c = m.make(OpKind::kDense, "dense " + name, kernels::DenseAttrs{},
                      {{1, {in}}, {1, {out}}, {1, {out}}}, {1, {out}});
    c.params = {m.param({2, {out, in}}), m.param({1, {out}}), {}, {}, {}};
    c.segments = {{{kernels::UnaryKind::kRelu, 0, 0}, 0, out}};
    cases.push_back(c);
    OpCase l = m.make(OpKind::kLinear, "linear " + name, kernels::LinearAttrs{}, {{1, {in}}}, {1, {out}});
    l.params = {c.params[0], c.params[1]};
    cases.push_back(l);
    cases.push_back(m.make(OpKind::kMatMul, "matmul " + name,
                           kernels::MatMulAttrs{0, 1, 1, kernels::MatMulPart::kAll},
                           {{2, {3, in}}, {2, {out, in}}}, {2, {3, out}}));
  }
  return cases;
}

std::vector<OpCase> axis_cases(int64_t n) {
  Maker m;
  const std::string name = std::to_string(n);
  return {
      m.make(OpKind::kFm, "fm " + name, kernels::FmAttrs{3, n}, {{1, {3 * n}}}, {1, {1}}),
      m.make(OpKind::kLayerNorm, "layer_norm " + name, kernels::LayerNormAttrs{}, {{2, {2, n}}}, {2, {2, n}}),
      m.make(OpKind::kSoftmax, "softmax last " + name, kernels::SoftmaxAttrs{1}, {{2, {2, n}}, {}},
             {2, {2, n}}),
      m.make(OpKind::kSoftmax, "softmax first " + name, kernels::SoftmaxAttrs{0}, {{2, {3, n}}, {}},
             {2, {3, n}}),
      m.make(OpKind::kReduce, "reduce last " + name,
             kernels::ReduceAttrs{kernels::ReduceKind::kMean, 1, 0, 0, 0}, {{2, {2, n}}, {}}, {1, {2}}),
      m.make(OpKind::kReduce, "reduce first " + name,
             kernels::ReduceAttrs{kernels::ReduceKind::kMax, 0, 0, 0, 0}, {{2, {3, n}}, {}}, {1, {n}})};
}

// The Dims {} of an input above stand for an absent one.
void drop_absent(OpCase* c) {
  for (CaseValue& v : c->inputs) {
    if (v.dims.rank == 0) v = CaseValue{};
  }
}

}  // namespace

TEST_CASE("sizes: products agree with ref") {
  for (const int64_t in : kAwkwardSizes) {
    if (in == 0) continue;
    check_cases_against_ref(dense_cases(in));
  }
}

TEST_CASE("sizes: ops along an axis agree with ref") {
  for (const int64_t n : kAwkwardSizes) {
    if (n == 0) continue;
    std::vector<OpCase> cases = axis_cases(n);
    for (OpCase& c : cases) drop_absent(&c);
    check_cases_against_ref(std::move(cases));
  }
}

}  // namespace dpi::test::sizes_test
