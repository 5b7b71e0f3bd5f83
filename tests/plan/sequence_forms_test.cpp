// The products of every two fields: what the plan makes of them, what it leaves, and the same scores either
// way.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "plan/checked_plan.hpp"
#include "plan/interpreter.hpp"

namespace dpi::test {
namespace {

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

}  // namespace dpi::test
