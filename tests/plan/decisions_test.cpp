// Arithmetic that a decision sees gives the bits of its primitives, whatever the passes may fold or fuse.
#include <doctest/doctest.h>

#include <cmath>

#include "plan/checked_plan.hpp"
#include "support/interpreter.hpp"

namespace dpi::test::decisions_test {
namespace {

/// (x / 100 - 0.2) * 3 by one op each. Of whole x some of its values lie on 0 or beside it, as they are
/// rounded.
std::string arithmetic(ModelBuilder& b, const std::string& x, int64_t n) {
  const auto all = [&](float v) { return b.constant_of({n}, std::vector<float>(static_cast<size_t>(n), v)); };
  const std::string share = b.binary("div", x, all(100));
  return b.binary("mul", b.binary("sub", share, all(0.2f)), all(3));
}

std::string at(ModelBuilder& b, const std::string& x, int64_t i) {
  return b.op("View", {x}, {{"kind", "slice"}, {"axis", int64_t{0}}, {"begin", i}, {"end", i + 1}});
}

/// Each form reads a value both where it is decided by and where a fold could reach it.
ModelBuilder decided(int form) {
  ModelBuilder b("decided");
  if (form == 0) b.head("sign", b.unary("sign", arithmetic(b, b.dense("x", 1), 1)));
  if (form == 1) {  // a head that is also compared
    const std::string z = arithmetic(b, b.dense("x", 1), 1);
    b.head("z", b.unary("sigmoid", z), z);
    b.head("label", b.binary("ge", z, b.constant_of({1}, {0.0f})));
  }
  if (form == 2) {  // through views and a choice
    const std::string z = arithmetic(b, b.dense("x", 8), 8), part = b.reshape(at(b, z, 3), {1, 1});
    b.head("sign", b.unary("sign", b.reshape(part, {1})));
    b.head("part", b.reshape(part, {1}));
  }
  if (form == 3) {  // compared and summed up
    const std::string z = arithmetic(b, b.dense("x", 8), 8);
    const std::string above = b.binary("gt", z, b.constant_of({1}, {0.0f}));
    b.head("count", b.reduce("sum", above, 0, true));
    b.head("sum", b.linear(z, 8, 1));
  }
  if (form == 4) {  // the place of the largest
    const std::string z = arithmetic(b, b.dense("x", 8), 8);
    b.head("place", b.op("TopK", {z}, {{"k", int64_t{1}}, {"axis", int64_t{0}}}));
    b.head("first", at(b, z, 0));
  }
  return b;
}

/// All whole numbers to 100 and the places beside them, one after another.
TestBatch batch_of(const ModelBuilder& b) {
  TestBatch batch = random_batch(b.manifest().features, 303, 0, 3);
  std::vector<float>& x = batch.floats[0];
  for (size_t i = 0; i < x.size(); ++i) {
    const auto whole = static_cast<float>(i / 3 % 101);
    x[i] = i % 3 == 0 ? whole : std::nextafter(whole, i % 3 == 1 ? 1000.0f : -1000.0f);
  }
  return batch;
}

/// A score, for which a rounding is a rounding.
bool is_smooth(const std::string& head) { return head == "sum" || head == "part" || head == "first"; }

TEST_CASE("decisions: folded and fused, element-wise arithmetic keeps its bits") {
  for (int form = 0; form < 5; ++form) {
    CAPTURE(form);
    ModelBuilder b = decided(form);
    const TestBatch batch = batch_of(b);
    PlanOptions plain;
    plain.fold = plain.fuse = false;
    const Scores want = interpret(checked_plan(b, plain), batch, b.tables());
    for (const bool fold : {false, true}) {
      PlanOptions options;
      options.fold = fold;
      const Plan plan = checked_plan(b, options);
      const Scores got = interpret(plan, batch, b.tables());
      REQUIRE(got.value.size() == want.value.size());
      size_t other = 0;
      for (size_t i = 0; i < got.value.size(); ++i) {
        if (is_smooth(plan.heads[i % plan.heads.size()].name)) continue;
        const bool same_logit = got.logit[i] == want.logit[i] || std::isnan(want.logit[i]);  // NaN: has none
        other += got.value[i] == want.value[i] && same_logit ? 0 : 1;
      }
      CHECK_MESSAGE(other == 0, dump_plan(plan));
    }
  }
}

TEST_CASE("decisions: what they see stays in 32 bits") {
  for (const kernels::DType type : {kernels::DType::kF16, kernels::DType::kBF16}) {
    ModelBuilder b("narrow");
    const std::string x = b.dense("x", 8), z = arithmetic(b, b.unary("relu", b.linear(x, 8, 16)), 16);
    const std::string above = b.binary("gt", z, b.constant_of({1}, {0.0f}));
    const std::string tower = b.unary("relu", b.linear(b.unary("tanh", z), 16, 16));
    b.head("count", b.linear(b.concat({above, b.unary("relu", b.linear(tower, 16, 16))}), 32, 1));
    PlanOptions options;
    options.activation = type;
    const Plan plan = checked_plan(b, options);
    const auto value = [&](int32_t v) { return plan.values[static_cast<size_t>(v)]; };
    int seen = 0, narrow = 0;
    for (const PlanOp& op : plan.ops) {
      narrow += value(op.outputs.back()).dtype == type ? 1 : 0;
      if (op.kind != OpKind::kBinary && op.kind != OpKind::kElementwise) continue;
      for (const int32_t v : op.inputs) {
        ++seen;
        CHECK_MESSAGE(value(v).dtype == kernels::DType::kF32, dump_plan(plan));
      }
    }
    CHECK(seen > 0);
    CHECK_MESSAGE(narrow > 0, dump_plan(plan));
  }
}

}  // namespace
}  // namespace dpi::test::decisions_test
