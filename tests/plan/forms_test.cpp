// Forms that look like one that a pass knows and are not: the scores must stay those of the plan as written.
// Each was written for a pass that took it for the other and passed all other tests (tests/mutants).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "plan/checked_plan.hpp"
#include "support/interpreter.hpp"
#include "support/paper_models.hpp"

namespace dpi::test::forms_test {
namespace {

using Attrs = ModelBuilder::Attrs;

/// Three one-hot vectors of 4 side by side.
struct Vectors {
  ModelBuilder b{"forms"};
  std::string id, x;
  Vectors() {
    std::vector<std::string> vectors;
    for (int i = 0; i < 3; ++i) {
      id = b.categorical("c" + std::to_string(i), 7);
      vectors.push_back(b.embed(id, 7, 4));
    }
    x = b.concat(vectors);
  }
  /// A head of `logit` plus a table's column.
  void end(const std::string& logit) {
    const std::string sum = b.binary("add", logit, b.embed(id, 7, 1));
    b.head("ctr", b.unary("sigmoid", sum), sum);
  }
};

void check_scores(ModelBuilder& b, const PlanOptions& with = {}) {
  PlanOptions plain;
  plain.fold = plain.fuse = false;
  const Plan written = checked_plan(b, plain);
  const TestBatch batch = random_batch(written.features, 9, 3, 5);
  const Scores want = interpret(written, batch, b.tables());
  for (const bool fold : {false, true}) {
    PlanOptions options = with;
    options.fold = fold;
    const Plan fused = checked_plan(b, options);
    CAPTURE(dump_plan(fused));
    const Scores got = interpret(fused, batch, b.tables());
    for (size_t i = 0; i < want.value.size(); ++i) {
      CHECK(std::fabs(got.value[i] - want.value[i]) <= 1e-5f);
      if (written.heads[i % written.heads.size()].logit >= 0)
        CHECK(std::fabs(got.logit[i] - want.logit[i]) <= 1e-5f);
    }
  }
}

TEST_CASE("a mean in a head keeps its eps") {
  Vectors v;
  v.end(v.b.op("Reduce", {v.x}, {{"kind", "mean"}, {"axis", int64_t{0}}, {"keepdim", true}, {"eps", 4.0}}));
  check_scores(v.b);
}

TEST_CASE("sums over the columns of vectors are no FM") {
  Vectors v;
  const std::string e = v.b.reshape(v.x, {3, 4}), s = v.b.reduce("sum", e, 1, false);
  const std::string pairs = v.b.binary("sub", v.b.binary("mul", s, s), v.b.reduce("sumsq", e, 1, false));
  v.end(v.b.unary("affine", v.b.reduce("sum", pairs, 0, true), {{"a", 0.5}, {"b", 0.0}}));
  check_scores(v.b);
}

TEST_CASE("an affine map with a shift is no factor of FM") {
  Vectors v;
  const std::string e = v.b.reshape(v.x, {3, 4}), s = v.b.reduce("sum", e, 0, false);
  const std::string pairs = v.b.binary("sub", v.b.binary("mul", s, s), v.b.reduce("sumsq", e, 0, false));
  v.end(v.b.unary("affine", v.b.reduce("sum", pairs, 0, true), {{"a", 0.5}, {"b", 0.3}}));
  check_scores(v.b);
}

TEST_CASE("a constant of one element is no cross layer's bias") {
  Vectors v;
  const std::string product = v.b.binary("mul", v.x, v.b.linear(v.x, 12, 1, false));
  const std::string y = v.b.binary("add", v.b.binary("add", product, v.b.constant({1}, 1)), v.x);
  v.end(v.b.linear(v.b.unary("tanh", y), 12, 1));
  check_scores(v.b);
}

TEST_CASE("a head may end with an activation that has parameters") {
  for (const bool dice : {false, true}) {
    Vectors v;
    const std::string logit = v.b.linear(v.x, 12, 1);
    const auto one = [&] { return v.b.param({1}, 1); };
    const std::string y = dice ? v.b.op("Unary", {logit}, {{"kind", "dice"}},
                                        {{"alpha", one()}, {"scale", one()}, {"shift", one()}})
                               : v.b.op("Unary", {logit}, {{"kind", "prelu"}}, {{"slope", one()}});
    v.b.head("y", y, logit);
    check_scores(v.b);
  }
}

TEST_CASE("a head inside a chain of element-wise ops is written") {
  ModelBuilder b("chain");
  const std::string first = b.unary("tanh", b.numeric("n")), second = b.unary("exp", first);
  b.head("first", first);
  b.head("second", second);
  check_scores(b);
}

TEST_CASE("a head that others read in another shape keeps its buffer") {
  Vectors v;
  const std::string first = v.b.unary("tanh", v.b.numeric("n"));
  v.b.head("first", first);
  const std::string again = v.b.unary("exp", v.b.reshape(first, {1, 1}));
  v.end(v.b.linear(v.b.concat({v.b.reshape(again, {1}), v.x}), 13, 1));
  PlanOptions options;
  options.skip = kSkipElementwise;
  check_scores(v.b, options);
}

TEST_CASE("slices and repeats of vectors are read where they are") {
  Vectors v;
  const std::string e = v.b.reshape(v.x, {3, 4});
  const std::string last = v.b.op(
      "View", {e}, {{"kind", "slice"}, {"axis", int64_t{0}}, {"begin", int64_t{1}}, {"end", int64_t{3}}});
  const std::string first = v.b.reshape(
      v.b.op("View", {v.x},
             {{"kind", "slice"}, {"axis", int64_t{0}}, {"begin", int64_t{0}}, {"end", int64_t{4}}}),
      {1, 4});
  const std::string repeated =
      v.b.op("View", {first}, {{"kind", "expand"}, {"dims", std::vector<int64_t>{3, 4}}});
  const std::string y = v.b.concat({v.b.reshape(last, {8}), v.b.reshape(repeated, {12})});
  v.end(v.b.linear(v.b.unary("relu", v.b.linear(y, 20, 8)), 8, 1));
  check_scores(v.b);
}

TEST_CASE("a mean by rows that are not zero looks at the whole row") {
  ModelBuilder b("nonzero");
  const std::string id = b.categorical("c", 5), s = b.sequence("s", 5, 4);
  const std::string e = b.embed_in(s, b.table(5, 4, {1, 3}), {{"pooling", "mean"}, {"mask", "nonzero"}});
  const std::string logit = b.binary("add", b.linear(e, 4, 1), b.embed(id, 5, 1));
  b.head("ctr", b.unary("sigmoid", logit), logit);
  check_scores(b);
}

TEST_CASE("constants that ops make out of small ones are computed up to a bound") {
  ModelBuilder b("constants");
  constexpr int64_t kMany = 1 << 20;  // four times as many may be kept
  const std::string n = b.numeric("n"), one = b.constant({1});
  std::string sum = n;
  for (int i = 0; i < 6; ++i) {
    const std::string large =
        b.op("View", {one}, {{"kind", "expand"}, {"dims", std::vector<int64_t>{kMany}}});
    sum = b.binary("add", sum, b.reduce("sum", b.unary("tanh", b.binary("mul", large, n)), 0, true));
  }
  b.head("ctr", sum);
  const Plan p = checked_plan(b);
  CHECK(std::count_if(p.ops.begin(), p.ops.end(),
                      [](const PlanOp& op) { return op.kind == OpKind::kView; }) == 2);
}

TEST_CASE("no pass writes more than four times the weights for numbers that are repeated") {
  constexpr int64_t kMany = 1 << 18, kMost = 16 << 20;  // each alone has room
  ModelBuilder b("repeated");
  const std::string n = b.numeric("n");
  std::string sum = n;
  for (int i = 0; i < 24; ++i) {
    const std::string wide =
        b.op("View", {n}, {{"kind", "expand"}, {"dims", std::vector<int64_t>{kMany + i}}});
    sum = b.binary("add", sum, b.reduce("sum", b.unary(i % 2 == 0 ? "tanh" : "relu", wide), 0, true));
  }
  b.head("ctr", sum);
  const Plan p = checked_plan(b);
  int64_t bytes = 0;
  for (const PlanParam& param : p.params) bytes += static_cast<int64_t>(param.data.size() * sizeof(float));
  CHECK(bytes <= kMost);
  CHECK(std::count_if(p.notes.begin(), p.notes.end(),
                      [](const std::string& note) { return note.starts_with("memory: "); }) > 0);
}

TEST_CASE("scalars ride with a table that the lookup reads for the same ids") {
  Vectors v;
  std::vector<std::string> terms;
  for (int i = 0; i < 3; ++i) {
    const std::string id = v.b.categorical("d" + std::to_string(i), 7);
    terms.push_back(v.b.binary("add", v.b.embed(id, 7, 1), v.b.embed(id, 7, 1)));
    terms.push_back(v.b.linear(v.b.unary("relu", v.b.linear(v.b.embed(id, 7, 4), 4, 3)), 3, 1));
  }
  std::string sum = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) sum = v.b.binary("add", sum, terms[i]);
  v.b.head("ctr", v.b.unary("sigmoid", sum), sum);
  const Plan p = checked_plan(v.b);
  CAPTURE(dump_plan(p));
  const PlanOp& op = p.ops[0];
  REQUIRE(op.scalars.size() == 3);
  for (const kernels::ScalarField& s : op.scalars) {
    const PlanTable& t = p.tables[static_cast<size_t>(op.tables[static_cast<size_t>(s.table)])];
    bool found = false;
    for (const kernels::LookupField& f : op.fields)
      found = found || (f.input == s.input && op.tables[static_cast<size_t>(f.table)] == t.ride_with);
    CHECK(found);
  }
}

}  // namespace
}  // namespace dpi::test::forms_test
