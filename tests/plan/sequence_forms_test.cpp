// The first layer of target attention and the products of every two fields: what the passes make of them,
// what they leave, and the same scores either way.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "plan/checked_plan.hpp"
#include "support/interpreter.hpp"

namespace dpi::test::sequence_forms_test {
namespace {

constexpr int64_t kPositions = 5;

/// The plan with folds and fuses; its scores are those of the plan as written, with all four settings.
Plan same_scores(ModelBuilder& b) {
  PlanOptions plain;
  plain.fold = plain.fuse = false;
  const Plan written = checked_plan(b, plain);
  const TestBatch batch = random_batch(written.features, 9, 3, 5);
  const Scores want = interpret(written, batch, b.tables());
  for (const bool fold : {false, true}) {
    for (const bool fuse : {false, true}) {
      PlanOptions options;
      options.fold = fold;
      options.fuse = fuse;
      const Plan made = checked_plan(b, options);
      CAPTURE(dump_plan(made));
      const Scores got = interpret(made, batch, b.tables());
      for (size_t i = 0; i < want.value.size(); ++i) CHECK(std::fabs(got.logit[i] - want.logit[i]) <= 1e-5f);
    }
  }
  return checked_plan(b);
}

int64_t count_binary(const Plan& p, kernels::BinaryKind kind) {
  int64_t n = 0;
  for (const PlanOp& op : p.ops) {
    if (op.kind == OpKind::kBinary) n += std::get<kernels::BinaryAttrs>(op.attrs).kind == kind ? 1 : 0;
    if (op.kind != OpKind::kElementwise) continue;
    const auto& e = std::get<kernels::ElementwiseAttrs>(op.attrs);
    for (int32_t s = 0; s < e.n_steps; ++s)
      n += e.steps[s].kind == kernels::StepKind::kBinary && e.steps[s].binary == kind ? 1 : 0;
  }
  return n;
}

/// Columns that the Linear layers over all positions read, in the plan's order.
std::vector<int64_t> widths_over_positions(const Plan& p) {
  std::vector<int64_t> widths;
  for (const PlanOp& op : p.ops) {
    if (op.kind != OpKind::kLinear) continue;
    const Dims& x = p.values[static_cast<size_t>(op.inputs[0])].dims;
    if (x.size() > x.at(-1)) widths.push_back(x.at(-1));
  }
  return widths;
}

/// DIN's attention over a target and a history of two fields.
struct Target {
  ModelBuilder b{"target"};
  std::string q, k1, k2, k, all;  // q repeated along the positions

  Target() {
    const std::string one =
        b.concat({b.embed(b.categorical("item", 7), 7, 4), b.embed(b.categorical("cate", 5), 5, 4)});
    q = b.op("View", {b.reshape(one, {1, 8})},
             {{"kind", "expand"}, {"dims", std::vector<int64_t>{kPositions, 8}}});
    k1 = b.embed(b.sequence("items", 7, kPositions), 7, 4, {{"pooling", "none"}});
    k2 = b.embed(b.sequence("cates", 5, kPositions), 5, 4, {{"pooling", "none"}});
    k = b.concat({k1, k2}, 1);
  }
  /// weight: of the layer [6, width]; "": noise.
  Plan scores(const std::vector<std::string>& pieces, int64_t width, const std::string& weight = "") {
    const std::string x = b.concat(pieces, 1);
    const std::string first =
        weight.empty() ? b.linear(x, width, 6) : b.op("Linear", {x}, {}, {{"weight", weight}});
    const std::string h = b.unary("relu", first);
    const std::string sum = b.reduce("sum", b.binary("mul", b.linear(h, 6, 1), k), 0, false);
    const std::string logit = b.linear(sum, 8, 1);
    b.head("ctr", b.unary("sigmoid", logit), logit);
    return same_scores(b);
  }
};

}  // namespace

TEST_CASE("target attention: the difference is spread and the target multiplied once") {
  Target t;
  const Plan p = t.scores({t.q, t.k1, t.k2, t.b.binary("sub", t.q, t.k), t.b.binary("mul", t.q, t.k)}, 32);
  CAPTURE(dump_plan(p));
  CHECK(count_binary(p, kernels::BinaryKind::kSub) == 0);
  CHECK(widths_over_positions(p) == std::vector<int64_t>{16, 6});
  CHECK(std::count_if(p.ops.begin(), p.ops.end(), [&](const PlanOp& op) {
          return op.kind == OpKind::kLinear && op.inputs.size() == 2 && op.inputs[1] >= 0 &&
                 p.values[static_cast<size_t>(op.inputs[1])].dims.size() == 8;
        }) == 1);
}

TEST_CASE("target attention: the difference the other way round") {
  Target t;
  const Plan p = t.scores({t.k, t.q, t.b.binary("sub", t.k, t.q)}, 24);
  CHECK(count_binary(p, kernels::BinaryKind::kSub) == 0);
  CHECK(widths_over_positions(p) == std::vector<int64_t>{8, 6});
}

TEST_CASE("target attention: a difference without the repeated vector beside it stays") {
  Target t;
  const Plan p = t.scores({t.k, t.b.binary("sub", t.q, t.k), t.b.binary("mul", t.q, t.k)}, 24);
  CHECK(count_binary(p, kernels::BinaryKind::kSub) == 1);
  CHECK(widths_over_positions(p) == std::vector<int64_t>{24, 6});
}

TEST_CASE("target attention: a difference of histories is spread over both") {
  Target t;
  const Plan p = t.scores({t.k1, t.k2, t.b.binary("sub", t.k2, t.k1)}, 12);
  CHECK(count_binary(p, kernels::BinaryKind::kSub) == 0);
  CHECK(widths_over_positions(p) == std::vector<int64_t>{8, 6});
}

TEST_CASE("target attention: a difference whose weights outweigh those of its parts stays") {
  Target t;
  const std::string d = t.b.binary("sub", t.q, t.k);
  std::vector<float> weight(6 * 24, 0.05f);
  for (size_t i = 0; i < weight.size(); ++i) weight[i] *= i % 24 >= 16 ? 3.0f : 1.0f;
  const Plan p = t.scores({t.q, t.k, d}, 24, t.b.param_of({6, 24}, weight));
  CHECK(count_binary(p, kernels::BinaryKind::kSub) == 1);
}

// ---- products of every two fields

namespace {

/// Four fields of 3 and a head over entries of their products.
struct Pairs {
  ModelBuilder b{"pairs"};
  std::string e;
  Pairs() {
    std::vector<std::string> fields;
    for (int i = 0; i < 4; ++i) fields.push_back(b.embed(b.categorical("c" + std::to_string(i), 7), 7, 3));
    e = b.reshape(b.concat(fields), {4, 3});
  }
  Plan scores(const std::vector<int64_t>& entries, const std::string& with = "") {
    const std::string product = b.op("MatMul", {e, with.empty() ? e : with}, {{"trans_b", true}});
    const std::string picked = b.op("View", {b.reshape(product, {16})},
                                    {{"kind", "index_select"}, {"axis", int64_t{0}}, {"indices", entries}});
    const auto n = static_cast<int64_t>(entries.size());
    const std::string logit = b.linear(b.unary("relu", b.linear(picked, n, 5)), 5, 1);
    b.head("ctr", b.unary("sigmoid", logit), logit);
    return same_scores(b);
  }
};

bool has_part(const Plan& p, kernels::MatMulPart part) {
  return std::any_of(p.ops.begin(), p.ops.end(), [&](const PlanOp& op) {
    return op.kind == OpKind::kMatMul && std::get<kernels::MatMulAttrs>(op.attrs).part == part;
  });
}

}  // namespace

TEST_CASE("pairs: one side of the diagonal is all that is computed") {
  Pairs upper, lower, two;
  CHECK(has_part(upper.scores({1, 2, 3, 6, 7, 11}), kernels::MatMulPart::kUpper));
  CHECK(has_part(lower.scores({4, 8, 9, 12, 13, 14}), kernels::MatMulPart::kLower));
  CHECK(has_part(two.scores({1, 2, 3, 6, 7, 11}, two.b.unary("tanh", two.e)), kernels::MatMulPart::kUpper));
}

TEST_CASE("pairs: other entries are selected from the whole product") {
  for (const std::vector<int64_t>& entries : std::vector<std::vector<int64_t>>{
           {1, 2, 3, 6, 7}, {1, 2, 3, 7, 6, 11}, {0, 1, 2, 3, 6, 7, 11}, {4, 8, 12, 9, 13, 14}}) {
    Pairs pairs;
    CHECK(has_part(pairs.scores(entries), kernels::MatMulPart::kAll));
  }
}

}  // namespace dpi::test::sequence_forms_test
