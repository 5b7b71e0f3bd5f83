// Sums of rows with a weight each are one product, constants per channel go into the layers behind them, and
// scores stay those of the primitives.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "plan/checked_plan.hpp"
#include "support/interpreter.hpp"

namespace dpi::test::mixture_test {
namespace {

/// What is wrong with a sum that is no product; it still has a meaning.
enum class Fault { kNone, kMean, kOtherAxis, kProductIsRead, kAdded, kMask, kCount };

struct Drawn {
  int64_t experts = 3, width = 4;
  bool weights_last = false, keepdim = false;
  Fault fault = Fault::kNone;
};

/// Experts over one input under a gate, and a layer behind their sum.
ModelBuilder gated(const Drawn& d) {
  ModelBuilder b("gated");
  const std::string x =
      b.concat({b.embed(b.categorical("a", 7), 7, 3), b.embed(b.categorical("b", 5), 5, 3)});
  std::vector<std::string> experts;
  for (int64_t e = 0; e < d.experts; ++e)
    experts.push_back(b.reshape(b.unary("relu", b.linear(x, 6, d.width)), {1, d.width}));
  const std::string all = b.concat(experts, 0);
  const std::string gate = b.op("Softmax", {b.linear(x, 6, d.experts)}, {{"axis", int64_t{0}}});
  const std::string w = b.reshape(gate, {d.experts, 1});
  const char* const kind = d.fault == Fault::kAdded ? "add" : "mul";
  const std::string z = d.weights_last ? b.binary(kind, all, w) : b.binary(kind, w, all);
  ModelBuilder::Attrs sum{{"kind", d.fault == Fault::kMean ? "mean" : "sum"},
                          {"axis", int64_t{d.fault == Fault::kOtherAxis ? 1 : 0}},
                          {"keepdim", d.keepdim}};
  std::vector<std::string> operands{z};
  if (d.fault == Fault::kMask) operands.push_back(b.unary("relu", b.linear(x, 6, d.experts)));
  const int64_t n = d.fault == Fault::kOtherAxis ? d.experts : d.width;
  const std::string mixed = b.reshape(b.op("Reduce", operands, sum), {n});
  if (d.fault == Fault::kProductIsRead)
    b.head("z", b.reduce("sum", b.reshape(z, {d.experts * d.width}), 0, true));
  const std::string logit = b.linear(mixed, n, 1);
  b.head("ctr", b.unary("sigmoid", logit), logit);
  return b;
}

Plan check_scores(ModelBuilder b, uint32_t seed) {
  PlanOptions plain;
  plain.fold = plain.fuse = false;
  const Plan reference = checked_plan(b, plain);
  const TestBatch batch = random_batch(reference.features, 9, 3, seed);
  const Scores expected = interpret(reference, batch, b.tables());
  Plan plan;
  for (const bool fold : {false, true}) {
    PlanOptions options;
    options.fold = fold;
    plan = checked_plan(b, options);
    CAPTURE(dump_plan(plan));
    const Scores got = interpret(plan, batch, b.tables());
    for (size_t i = 0; i < expected.value.size(); ++i) {
      REQUIRE(std::isfinite(expected.value[i]));
      CHECK(std::fabs(got.value[i] - expected.value[i]) <=
            2e-6 * std::max(1.0f, std::fabs(expected.value[i])));
    }
  }
  return plan;
}

int64_t count(const Plan& p, OpKind kind) {
  return std::count_if(p.ops.begin(), p.ops.end(), [kind](const PlanOp& op) { return op.kind == kind; });
}

TEST_CASE("a gate's weighted sum is one product") {
  for (int k = 0; k < 32; ++k) {
    Drawn d;
    d.experts = 1 + k % 5;
    d.width = 1 + k % 7;
    d.weights_last = k % 2 != 0;
    d.keepdim = k % 4 > 1;
    CAPTURE(k);
    const Plan plan = check_scores(gated(d), static_cast<uint32_t>(k));
    CHECK(count(plan, OpKind::kReduce) == 0);
    CHECK(count(plan, OpKind::kBinary) == 0);
    CHECK(count(plan, OpKind::kMatMul) == 1);
  }
}

TEST_CASE("other sums stay what they are") {
  for (int fault = 1; fault < static_cast<int>(Fault::kCount); ++fault) {
    Drawn d;
    d.fault = static_cast<Fault>(fault);
    CAPTURE(fault);
    CHECK(count(check_scores(gated(d), 5), OpKind::kMatMul) == 0);
  }
}

TEST_CASE("debug.skip=mixture leaves the sum") {
  ModelBuilder b = gated({});
  PlanOptions options;
  CHECK(parse_skip("mixture", &options.skip));
  CHECK(count(checked_plan(b, options), OpKind::kMatMul) == 0);
}

/// FinalMLP: x, times 2, times a constant per column and tower, a layer each.
ModelBuilder towers(bool two_is_read, bool scale_is_read) {
  ModelBuilder b("towers");
  const std::string x =
      b.concat({b.embed(b.categorical("a", 7), 7, 3), b.embed(b.categorical("b", 5), 5, 3)});
  const std::string two = b.unary("affine", x, {{"a", 2.0}, {"b", 0.0}});
  std::vector<std::string> layers;
  for (int k = 0; k < 2; ++k) {
    const std::string scaled = b.binary("mul", two, b.constant({6}, 0.7));
    layers.push_back(b.unary("relu", b.linear(scaled, 6, 5)));
    if (scale_is_read && k == 0) layers.push_back(b.unary("tanh", scaled));
  }
  if (two_is_read) layers.push_back(b.unary("tanh", two));
  const std::string all = b.concat(layers);
  const std::string logit = b.linear(all, 10 + (two_is_read ? 6 : 0) + (scale_is_read ? 6 : 0), 1);
  b.head("ctr", b.unary("sigmoid", logit), logit);
  return b;
}

TEST_CASE("constants per channel go into the layers behind them, which become one") {
  const Plan plan = check_scores(towers(false, false), 3);
  CHECK(count(plan, OpKind::kBinary) == 0);
  CHECK(count(plan, OpKind::kUnary) == 0);
  CHECK(count(plan, OpKind::kDense) == 1);
}

TEST_CASE("a scaled vector that others read is still there") {
  CHECK(count(check_scores(towers(true, false), 3), OpKind::kDense) == 1);
  CHECK(count(check_scores(towers(false, true), 3), OpKind::kDense) == 2);
  CHECK(count(check_scores(towers(true, true), 3), OpKind::kDense) == 2);
}

}  // namespace
}  // namespace dpi::test::mixture_test
