// What folds make of tables whose rows the store moves: columns that a row gives alone ride at its place,
// those with dense weights stay explicit, tables of the same ids stay apart; and the plan says so. A resident
// plan with fold_as_tiered folds the same. Planted, each seen: weights of a Linear, of BatchNorm or of a
// constant taken for the graph's shape; one column for two tables; a carrier that nothing else reads dropped.
#include <doctest/doctest.h>

#include <algorithm>

#include "plan/checked_plan.hpp"

namespace dpi::test::tiered_folds_test {
namespace {

constexpr int64_t kRows = 7, kDim = 4;

/// A vector and a weight of the same ids.
struct Wide {
  ModelBuilder b{"wide"};
  std::string ids = b.categorical("c", kRows), vector = b.table(kRows, kDim), weight = b.table(kRows, 1);
  std::string embed(const std::string& table) { return b.embed_in(ids, table); }
  /// The plan of one head over the vector's MLP and `linear`.
  Plan plan(const std::string& linear, bool tiered) {
    const std::string deep = b.linear(b.unary("relu", b.linear(embed(vector), kDim, 3)), 3, 1);
    b.head("ctr", b.unary("sigmoid", b.binary("add", deep, linear)));
    PlanOptions o;
    o.fold_as_tiered = !tiered;
    if (tiered) o.may_tier = {vector, weight};
    return checked_plan(b, o);
  }
};

bool says(const Plan& p, const std::string& text) {
  return std::any_of(p.notes.begin(), p.notes.end(),
                     [&](const std::string& n) { return n.find(text) != std::string::npos; });
}

const std::string kExplicit = "stay explicit: dense weights are in them";

const PlanTable* derived(const Plan& p) {
  const auto at =
      std::find_if(p.tables.begin(), p.tables.end(), [](const PlanTable& t) { return t.source < 0; });
  return at == p.tables.end() ? nullptr : &*at;
}

size_t scalar_fields(const Plan& p) {
  size_t n = 0;
  for (const PlanOp& op : p.ops) n += op.scalars.size();
  return n;
}

TEST_CASE("a weight per id is summed where it lies") {
  for (const bool tiered : {true, false}) {
    Wide w;
    const Plan p = w.plan(w.embed(w.weight), tiered);
    CAPTURE(dump_plan(p));
    CHECK(scalar_fields(p) == 1);
    CHECK((derived(p) == nullptr) == tiered);  // the resident one rides with the vector
    CHECK_FALSE(says(p, kExplicit));
  }
}

TEST_CASE("what the graph's shape says of a row rides with it") {
  for (const char* kind : {"sum", "mean"}) {
    Wide w;
    const Plan p = w.plan(w.b.reduce(kind, w.embed(w.vector), -1, true), true);
    CAPTURE(dump_plan(p));
    REQUIRE(derived(p) != nullptr);
    const PlanTable& t = *derived(p);
    CHECK(t.tiered);
    REQUIRE(t.ride_with >= 0);
    CHECK(p.tables[static_cast<size_t>(t.ride_with)].name == w.vector);
    CHECK(t.columns.size() == 1);
    CHECK(p.placements.size() == 1);  // both are read at the same places
    CHECK_FALSE(says(p, kExplicit));
  }
}

TEST_CASE("a row that nothing reads but its sum is kept for it") {
  ModelBuilder b("sum");
  const std::string table = b.table(kRows, kDim);
  b.head("z", b.reduce("sum", b.embed_in(b.categorical("c", kRows), table), -1, true));
  PlanOptions o;
  o.may_tier = {table};
  const Plan p = checked_plan(b, o);
  CAPTURE(dump_plan(p));
  REQUIRE(p.tables.size() == 2);
  CHECK(p.tables[0].name == table);
  CHECK(p.tables[1].ride_with == 0);
  CHECK(p.placements.size() == 1);
  CHECK(p.placements[0].table == 0);
}

TEST_CASE("dense weights stay out of rows that the store moves") {
  const std::vector<std::string (*)(Wide&)> forms = {
      [](Wide& w) { return w.b.linear(w.embed(w.vector), kDim, 1); },
      [](Wide& w) { return w.b.reduce("sum", w.b.affine(w.embed(w.vector), kDim), -1, true); },
      [](Wide& w) { return w.b.linear(w.embed(w.weight), 1, 1); },
      [](Wide& w) { return w.b.binary("mul", w.embed(w.weight), w.b.constant({1})); },
      [](Wide& w) { return w.b.affine(w.embed(w.weight), 1); }};
  for (size_t i = 0; i < forms.size(); ++i) {
    CAPTURE(i);
    for (const bool tiered : {true, false}) {
      Wide w;
      const Plan p = w.plan(forms[i](w), tiered);
      CAPTURE(dump_plan(p));
      CHECK(derived(p) == nullptr);
      CHECK(scalar_fields(p) == 0);
      CHECK(says(p, kExplicit));
    }
    Wide w;  // resident, with every fold
    const std::string linear = forms[i](w);
    w.b.head("ctr", w.b.unary("sigmoid", linear));
    const Plan p = checked_plan(w.b);
    CHECK(scalar_fields(p) == 1);
    CHECK_FALSE(says(p, kExplicit));
  }
}

TEST_CASE("tables of the same ids add up in the lookup, each by itself") {
  Wide w;
  const std::string both =
      w.b.binary("add", w.embed(w.weight), w.b.reduce("sum", w.embed(w.vector), -1, true));
  const Plan p = w.plan(both, true);
  CAPTURE(dump_plan(p));
  CHECK(scalar_fields(p) == 2);
  CHECK(says(p, "stay apart from other tables' of the same ids"));
  REQUIRE(derived(p) != nullptr);
  for (const DerivedColumn& c : derived(p)->columns) CHECK(c.size() == 1);
}

}  // namespace
}  // namespace dpi::test::tiered_folds_test
