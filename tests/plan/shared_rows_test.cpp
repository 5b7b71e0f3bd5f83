// What users and items have in common is computed on shared rows and repeated late.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "plan/checked_plan.hpp"
#include "support/interpreter.hpp"
#include "support/paper_models.hpp"

namespace dpi::test::shared_rows_test {
namespace {

constexpr int64_t kDim = 4;

/// Vectors of features, of the user where the pattern has a 'u'.
struct Mixed {
  ModelBuilder b{"mixed"};
  std::vector<std::string> ids, vectors;
  explicit Mixed(const std::string& pattern) {
    for (const char c : pattern) {
      const RowSpace space = c == 'u' ? RowSpace::kShared : RowSpace::kItem;
      ids.push_back(b.categorical("f" + std::to_string(ids.size()), 7, space));
      vectors.push_back(b.embed(ids.back(), 7, kDim));
    }
  }
  int64_t width() const { return kDim * static_cast<int64_t>(vectors.size()); }
};

int64_t count(const Plan& p, OpKind kind, RowSpace space) {
  return std::count_if(p.ops.begin(), p.ops.end(), [&](const PlanOp& op) {
    const int32_t out = op.outputs[0] >= 0 ? op.outputs[0] : op.outputs[1];
    return op.kind == kind && p.values[static_cast<size_t>(out)].space == space;
  });
}

/// Floats that BroadcastRows copies for each item row.
int64_t repeated(const Plan& p) {
  int64_t n = 0;
  for (const PlanOp& op : p.ops) {
    if (op.kind == OpKind::kBroadcastRows) n += p.values[static_cast<size_t>(op.outputs[0])].dims.size();
  }
  return n;
}

/// The plan, whose scores are those of the primitives.
Plan plan_of(ModelBuilder& b) {
  PlanOptions plain;
  plain.fold = plain.fuse = false;
  const Plan written = checked_plan(b, plain);
  Plan made = checked_plan(b);
  const TestBatch batch = random_batch(written.features, 9, 3, 5);
  const Scores want = interpret(written, batch, b.tables()), got = interpret(made, batch, b.tables());
  for (size_t r = 0; r < want.logit.size(); ++r) CHECK(std::fabs(got.logit[r] - want.logit[r]) <= 1e-5f);
  return made;
}

void finish(ModelBuilder& b, const std::string& logit) { b.head("ctr", b.unary("sigmoid", logit), logit); }

}  // namespace

TEST_CASE("a layer's columns of the user are multiplied once per user, wherever they stand") {
  for (const char* pattern : {"uui", "iuu", "uiuiu", "iuiui"}) {
    CAPTURE(pattern);
    Mixed m(pattern);
    const std::string h = m.b.unary("relu", m.b.linear(m.b.concat(m.vectors), m.width(), 8));
    finish(m.b, m.b.linear(h, 8, 1));
    const Plan p = plan_of(m.b);
    CAPTURE(dump_plan(p));
    CHECK(count(p, OpKind::kDense, RowSpace::kShared) == 1);
    CHECK(count(p, OpKind::kDense, RowSpace::kItem) == 1);
    CHECK(repeated(p) == 0);
    CHECK(p.ops.size() == 5);
  }
}

TEST_CASE("layers over one input multiply the user's columns together") {
  Mixed m("uuuii");
  const std::string x = m.b.concat(m.vectors);
  const std::string cross = m.b.binary("add", m.b.binary("mul", x, m.b.linear(x, 20, 20)), x);
  const std::string deep = m.b.unary("tanh", m.b.linear(x, 20, 8));
  finish(m.b, m.b.linear(m.b.concat({cross, deep}), 28, 1));
  const Plan p = plan_of(m.b);
  CAPTURE(dump_plan(p));
  CHECK(count(p, OpKind::kDense, RowSpace::kShared) == 1);
  CHECK(count(p, OpKind::kDense, RowSpace::kItem) == 2);
  CHECK(repeated(p) == 12);  // x itself, which the cross layer multiplies with
}

TEST_CASE("FM of users and items reads the users as one vector") {
  Mixed m("uiuui");
  finish(m.b, m.b.binary("add", paper::fm(m.b, m.b.concat(m.vectors), 5, kDim), m.b.embed(m.ids[0], 7, 1)));
  const Plan p = plan_of(m.b);
  CAPTURE(dump_plan(p));
  CHECK(count(p, OpKind::kFm, RowSpace::kShared) == 1);
  CHECK(count(p, OpKind::kFm, RowSpace::kItem) == 1);
  CHECK(repeated(p) == kDim + 1);  // the sum of the users' vectors, and all they give to the logit
}

TEST_CASE("what the last sum has of the user is one number") {
  Mixed m("uiui");
  std::string logit = m.b.linear(m.b.concat(m.vectors), 16, 1);
  for (const std::string& id : m.ids) logit = m.b.binary("add", logit, m.b.embed(id, 7, 1));
  finish(m.b, logit);
  const Plan p = plan_of(m.b);
  CAPTURE(dump_plan(p));
  CHECK(count(p, OpKind::kTail, RowSpace::kShared) == 1);
  CHECK(repeated(p) == 1);
}

namespace {

/// sum(u * (W h + b)): u of the user, h of the item; `swapped`: the factors change places.
Plan towers_plan(int64_t out, bool bias, bool swapped, bool layer_is_read) {
  Mixed m("uii");
  const std::string u = m.b.unary("tanh", m.b.linear(m.vectors[0], kDim, out));
  const std::string h = m.b.unary("relu", m.b.linear(m.b.concat({m.vectors[1], m.vectors[2]}), 2 * kDim, 6));
  const std::string i = m.b.linear(h, 6, out, bias);
  const std::string mul = swapped ? m.b.binary("mul", i, u) : m.b.binary("mul", u, i);
  std::string logit = m.b.reduce("sum", mul, 0, true);
  if (layer_is_read) logit = m.b.binary("add", logit, m.b.reduce("max", i, 0, true));
  finish(m.b, logit);
  return plan_of(m.b);
}

}  // namespace

TEST_CASE("the layer that ends an item's tower is multiplied with the user's vector, once per user") {
  for (const bool bias : {true, false}) {
    for (const bool swapped : {true, false}) {
      const Plan p = towers_plan(5, bias, swapped, false);
      CAPTURE(dump_plan(p));
      CHECK(count(p, OpKind::kDense, RowSpace::kItem) == 1);
      CHECK(count(p, OpKind::kDense, RowSpace::kShared) == 2);
      CHECK(repeated(p) == 6 + (bias ? 1 : 0));
    }
  }
  CHECK(count(towers_plan(3, true, false, false), OpKind::kDense, RowSpace::kItem) == 2);  // too narrow
  CHECK(count(towers_plan(5, true, false, true), OpKind::kDense, RowSpace::kItem) == 2);   // others read it
}

namespace {

constexpr int64_t kPositions = 5;

/// Target attention over a history of the user. `pieces`: of q (the target, repeated), k, d = q - k, p = q k;
/// h: two histories side by side instead of k.
Plan attention_plan(const std::string& pieces, const PlanOptions& options = {}) {
  ModelBuilder b("attention");
  const std::string t = b.embed(b.categorical("item", 7), 7, kDim);
  const std::string q = b.op("View", {b.reshape(t, {1, kDim})},
                             {{"kind", "expand"}, {"dims", std::vector<int64_t>{kPositions, kDim}}});
  const std::string k =
      b.embed(b.sequence("history", 7, kPositions, RowSpace::kShared), 7, kDim, {{"pooling", "none"}});
  std::vector<std::string> x;
  for (const char c : pieces) {
    if (c == 'q') x.push_back(q);
    if (c == 'k') x.push_back(k);
    if (c == 'h') x.push_back(b.concat({k, k}, 1));
    if (c == 'd') x.push_back(b.binary("sub", q, k));
    if (c == 'p') x.push_back(b.binary("mul", q, k));
  }
  const int64_t width = kDim * static_cast<int64_t>(pieces.size() + (pieces.find('h') != std::string::npos));
  const std::string h = b.unary("relu", b.linear(x.size() == 1 ? x[0] : b.concat(x, 1), width, 6));
  finish(b, b.reduce("sum", b.reshape(b.linear(h, 6, 1), {kPositions}), 0, true));
  return options.skip == 0 ? plan_of(b) : checked_plan(b, options);
}

}  // namespace

TEST_CASE("target attention: the history's part of the first layer is multiplied once per user") {
  for (const char* pieces : {"qkdp", "pdkq", "kqp", "kp", "qhp", "dkqp"}) {
    CAPTURE(pieces);
    const Plan p = attention_plan(pieces);
    CAPTURE(dump_plan(p));
    CHECK(count(p, OpKind::kLinear, RowSpace::kShared) == 1);
    CHECK(count(p, OpKind::kLinear, RowSpace::kItem) == 1);
  }
  CHECK(count(attention_plan("qp"), OpKind::kLinear, RowSpace::kShared) == 0);
  PlanOptions options;
  options.skip = kSkipHoist;
  CHECK(count(attention_plan("qkdp", options), OpKind::kLinear, RowSpace::kShared) == 0);
}

TEST_CASE("few columns of the user are repeated, and nothing is split where the pass is left out") {
  Mixed few("uii");
  finish(few.b, few.b.linear(few.b.unary("relu", few.b.linear(few.b.concat(few.vectors), 12, 8)), 8, 1));
  const Plan p = plan_of(few.b);
  CHECK(count(p, OpKind::kDense, RowSpace::kShared) == 0);
  CHECK(repeated(p) == kDim);
  Mixed m("uui");
  finish(m.b, m.b.linear(m.b.unary("relu", m.b.linear(m.b.concat(m.vectors), 12, 8)), 8, 1));
  PlanOptions options;
  options.skip = kSkipHoist;
  CHECK(repeated(checked_plan(m.b, options)) == 2 * kDim);
}

}  // namespace dpi::test::shared_rows_test
