// What a slice leaves out has no say: heads that read parts of a value of which another element is infinite.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "plan/checked_plan.hpp"
#include "support/interpreter.hpp"

namespace dpi::test::slice_test {
namespace {

std::string slice(ModelBuilder& b, const std::string& x, int64_t begin, int64_t end, int64_t axis = 0) {
  return b.op("View", {x}, {{"kind", "slice"}, {"axis", axis}, {"begin", begin}, {"end", end}});
}

/// Heads over z [4], of which element 1 is infinite; `form` picks how they read it.
ModelBuilder heads_of_parts(int form) {
  ModelBuilder b("parts");
  const std::string x = b.dense("x", 4), z = b.unary("exp", x);
  const auto head = [&](const std::string& v) { b.head("h" + v, b.unary("sigmoid", v), v); };
  if (form == 0)
    for (int64_t i = 0; i < 4; ++i) head(slice(b, z, i, i + 1));
  if (form == 1) {  // the second is the infinity's
    const std::string rows = b.reshape(z, {1, 2, 2});
    head(b.linear(b.reshape(slice(b, rows, 1, 2, 1), {2}), 2, 1));
    head(b.reduce("sum", b.reshape(slice(b, rows, 0, 1, 1), {2}), 0, true));
  }
  if (form == 2) {
    const std::string both = b.concat({z, b.unary("tanh", x), b.unary("exp", slice(b, x, 2, 4))});
    head(b.linear(slice(b, both, 2, 8), 6, 1));
    head(b.linear(slice(b, both, 7, 10), 3, 1));
  }
  if (form == 3) {  // two parts with the infinity between them, scaled
    const std::string sum = b.binary("add", slice(b, z, 0, 1), slice(b, z, 3, 4));
    head(b.unary("affine", sum, {{"a", 0.5}, {"b", 0.25}}));
    head(slice(b, slice(b, z, 2, 4), 0, 1));
    head(b.linear(b.affine(slice(b, z, 2, 4), 2), 2, 1));
  }
  if (form == 4) {  // part of a value that is there for heads only
    const std::string scaled = b.binary("mul", z, b.constant({4}, 1.0));
    head(slice(b, scaled, 0, 1));
    head(b.linear(b.binary("mul", slice(b, z, 2, 4), b.constant({2}, 1.0)), 2, 1));
  }
  if (form == 5) {  // a divisor of zero, and a column of a table, that the slices leave out
    const std::string wide = b.linear(x, 4, 3);
    const std::string shares = b.binary("div", wide, b.constant_of({3}, {1.0f, 2.0f, 0.0f}));
    head(b.reduce("sum", slice(b, shares, 0, 2), 0, true));
    const std::string e = b.embed(b.categorical("c", 7), 7, 4);
    b.fill_column(1, 4, std::numeric_limits<float>::infinity());
    head(b.reduce("sum", slice(b, e, 2, 4), 0, true));
  }
  return b;
}

bool same(const std::vector<float>& got, const std::vector<float>& want) {
  bool all = got.size() == want.size();
  for (size_t i = 0; all && i < got.size(); ++i)
    all = std::isnan(want[i])   ? std::isnan(got[i])
          : std::isinf(want[i]) ? got[i] == want[i]
                                : std::fabs(got[i] - want[i]) <= 1e-5f * std::fmax(1.0f, std::fabs(want[i]));
  return all;
}

TEST_CASE("elements that a slice leaves out are not read") {
  int finite = 0, infinite = 0;
  for (int form = 0; form < 6; ++form) {
    CAPTURE(form);
    ModelBuilder b = heads_of_parts(form);
    TestBatch batch = random_batch(b.manifest().features, 9, 0, 7);
    for (size_t r = 0; r < 9; ++r) batch.floats[0][r * 4 + 1] = 200;
    PlanOptions plain;
    plain.fold = plain.fuse = false;
    const Scores want = interpret(checked_plan(b, plain), batch, b.tables());
    for (const bool fold : {false, true}) {
      CAPTURE(fold);
      PlanOptions options;
      options.fold = fold;
      const Plan plan = checked_plan(b, options);
      const Scores got = interpret(plan, batch, b.tables());
      CHECK_MESSAGE(same(got.value, want.value), dump_plan(plan));
      CHECK(same(got.logit, want.logit));
    }
    for (const float v : want.logit) ++(std::isfinite(v) ? finite : infinite);
  }
  CHECK(finite >= 11 * 9);
  CHECK(infinite >= 9);
}

}  // namespace
}  // namespace dpi::test::slice_test
