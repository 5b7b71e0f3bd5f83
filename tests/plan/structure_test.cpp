// What the passes make of modules in the forms in which they are written: op counts, places and streams.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "plan/checked_plan.hpp"
#include "support/interpreter.hpp"
#include "support/paper_models.hpp"

namespace dpi::test::structure_test {
namespace {

int64_t count(const Plan& p, OpKind kind) {
  return std::count_if(p.ops.begin(), p.ops.end(), [&](const PlanOp& op) { return op.kind == kind; });
}

struct Fields {
  ModelBuilder b{"fields"};
  std::vector<std::string> ids, vectors;
  explicit Fields(int n = 3, int64_t dim = 4) {
    for (int i = 0; i < n; ++i) {
      ids.push_back(b.categorical("c" + std::to_string(i), 7));
      vectors.push_back(b.embed(ids.back(), 7, dim));
    }
  }
};

/// FM over x [3 * 4] as different people write it; `form` picks one.
std::string fm_form(ModelBuilder& b, const std::string& x, int form) {
  const std::string e = b.reshape(x, {3, 4});
  const bool keep = form == 1;
  const std::string s = b.reduce("sum", e, 0, keep);
  const std::string square = form == 2 ? b.unary("pow", s, {{"a", 2.0}}) : b.binary("mul", s, s);
  const std::string squares = form == 3   ? b.reduce("sum", b.binary("mul", e, e), 0, keep)
                              : form == 4 ? b.reduce("sumsq", x, 0, true)
                                          : b.reduce("sumsq", e, 0, keep);
  if (form == 4)
    return b.unary("affine", b.binary("sub", b.reduce("sumsq", s, 0, true), squares),
                   {{"a", 0.5}, {"b", 0.0}});
  std::string pairs = b.binary("sub", square, squares);
  if (keep) pairs = b.reshape(pairs, {4});
  if (form == 5) return b.reduce("sum", b.unary("affine", pairs, {{"a", 0.5}, {"b", 0.0}}), 0, true);
  return b.unary("affine", b.reduce("sum", pairs, 0, true), {{"a", 0.5}, {"b", 0.0}});
}

TEST_CASE("FM is found in every usual form") {
  for (int form = 0; form <= 5; ++form) {
    if (form == 1) continue;  // a reshape between difference and sum: covered by the scores only
    CAPTURE(form);
    Fields f;
    const std::string logit =
        f.b.binary("add", fm_form(f.b, f.b.concat(f.vectors), form), f.b.embed(f.ids[0], 7, 1));
    f.b.head("ctr", f.b.unary("sigmoid", logit));
    PlanOptions unfolded;
    unfolded.fold = false;
    CHECK(count(checked_plan(f.b, unfolded), OpKind::kFm) == 1);
    const Plan folded = checked_plan(f.b);
    CAPTURE(dump_plan(folded));
    CHECK(folded.ops.size() == 2);
    CHECK(std::get<kernels::MultiLookupAttrs>(folded.ops[0].attrs).fm_channel == 0);
  }
}

/// A sequence pooled under `fm` for FM and under `deep`, in the same table, for a layer.
ModelBuilder two_poolings(const ModelBuilder::Attrs& fm, const ModelBuilder::Attrs& deep) {
  ModelBuilder b("poolings");
  const std::string s = b.sequence("s", 5, 4), table = b.table(5, 4);
  const std::string c = b.embed(b.categorical("c", 5), 5, 4);
  const std::string pair = b.concat({b.embed_in(s, table, fm), c});
  const std::string layer = b.unary("relu", b.linear(b.embed_in(s, table, deep), 4, 8));
  const std::string logit = b.binary("add", paper::fm(b, pair, 2, 4), b.linear(layer, 8, 1));
  b.head("ctr", b.unary("sigmoid", logit), logit);
  return b;
}

TEST_CASE("a lookup's field serves FM and a layer only where both pool alike") {
  const std::vector<std::pair<ModelBuilder::Attrs, ModelBuilder::Attrs>> pairs = {
      {{{"pooling", "mean"}}, {{"pooling", "mean"}, {"mask", "id"}}},
      {{{"pooling", "mean"}}, {{"pooling", "mean"}, {"mask", "none"}}},
      {{{"pooling", "mean"}}, {{"pooling", "mean"}, {"mask", "nonzero"}}},
      {{{"pooling", "mean"}}, {{"pooling", "mean"}, {"eps", 0.5}}},
      {{{"pooling", "sum"}}, {{"pooling", "sum"}, {"mask", "id"}}},
      {{{"pooling", "max"}}, {{"pooling", "max"}, {"empty", 0.5}}},
      {{{"pooling", "max"}, {"mask", "id"}}, {{"pooling", "max"}}},
      {{{"pooling", "sum"}}, {{"pooling", "sum"}, {"eps", 0.5}}},  // a sum has no divisor
      {{{"pooling", "mean"}}, {{"pooling", "mean"}}}};
  for (size_t i = 0; i < pairs.size(); ++i) {
    CAPTURE(i);
    ModelBuilder b = two_poolings(pairs[i].first, pairs[i].second);
    PlanOptions plain;
    plain.fold = plain.fuse = false;
    const Plan written = checked_plan(b, plain), fused = checked_plan(b);
    CAPTURE(dump_plan(fused));
    const TestBatch batch = random_batch(written.features, 9, 3, 5);
    const Scores want = interpret(written, batch, b.tables()), got = interpret(fused, batch, b.tables());
    for (size_t r = 0; r < want.logit.size(); ++r) CHECK(std::fabs(got.logit[r] - want.logit[r]) <= 1e-5f);
    REQUIRE(count(fused, OpKind::kMultiLookup) == 1);
    CHECK(fused.ops[0].fields.size() == (i + 2 < pairs.size() ? 3 : 2));
  }
}

TEST_CASE("FM takes every vector of a number that it meets twice") {
  ModelBuilder b("twice");
  const std::string x = b.numeric("n"), id = b.categorical("c", 5), c = b.embed(id, 5, 4);
  const std::string first = b.linear(x, 1, 4, false), second = b.linear(x, 1, 4, false);
  const std::string fm = paper::fm(b, b.concat({first, second, c, first}), 4, 4);
  const std::string logit = b.binary("add", fm, b.embed(id, 5, 1));
  b.head("ctr", b.unary("sigmoid", logit), logit);
  PlanOptions plain;
  plain.fold = plain.fuse = false;
  const Plan written = checked_plan(b, plain), folded = checked_plan(b);
  CHECK(std::get<kernels::MultiLookupAttrs>(folded.ops[0].attrs).fm_channel == 0);
  const TestBatch batch = random_batch(written.features, 9, 3, 5);
  const Scores want = interpret(written, batch, b.tables()), got = interpret(folded, batch, b.tables());
  for (size_t r = 0; r < want.logit.size(); ++r) CHECK(std::fabs(got.logit[r] - want.logit[r]) <= 1e-5f);
}

/// x -> affine -> Linear, the form of BatchNorm over inputs; `last`: nothing but the last sum behind it.
Plan normed(double shift, bool last) {
  Fields f;
  const std::string x = f.b.affine(f.b.concat(f.vectors), 12, shift);
  const std::string y = last ? x : f.b.unary("relu", f.b.linear(x, 12, 8));
  const std::string logit = f.b.linear(y, last ? 12 : 8, 1);
  f.b.head("ctr", f.b.unary("sigmoid", logit), logit);
  return checked_plan(f.b);
}

bool notes_heavy(const Plan& p) {
  return std::any_of(p.notes.begin(), p.notes.end(), [](const std::string& note) {
    return note.find("stays, its shifts outweigh its values") != std::string::npos;
  });
}

TEST_CASE("a shift moves into the layer behind it only where it is light") {
  for (const bool last : {false, true}) {
    CAPTURE(last);
    const Plan light = normed(0.2, last), heavy = normed(700, last);
    CAPTURE(dump_plan(heavy));
    CHECK(count(light, OpKind::kUnary) + count(light, OpKind::kElementwise) == 0);
    CHECK_FALSE(notes_heavy(light));
    CHECK(count(heavy, OpKind::kUnary) + count(heavy, OpKind::kElementwise) == 1);
    CHECK(notes_heavy(heavy));
  }
}

TEST_CASE("layers that read one value become one") {
  Fields f;
  const std::string x = f.b.concat(f.vectors);
  std::vector<std::string> experts;
  for (int i = 0; i < 4; ++i) experts.push_back(f.b.unary(i % 2 ? "relu" : "tanh", f.b.linear(x, 12, 5 + i)));
  f.b.head("ctr", f.b.unary("sigmoid", f.b.linear(f.b.concat(experts), 26, 1)));
  const Plan p = checked_plan(f.b);
  CHECK(count(p, OpKind::kDense) == 1);
  CHECK(p.ops[1].segments.size() == 4);
  CHECK(count(p, OpKind::kConcat) + count(p, OpKind::kUnary) + count(p, OpKind::kView) == 0);
}

TEST_CASE("a value computed between lookups is written into their matrix") {
  Fields f;
  const std::string middle = f.b.unary("tanh", f.b.linear(f.b.dense("d", 6), 6, 4));
  const std::string x = f.b.concat({f.vectors[0], middle, f.vectors[1], f.vectors[2]});
  f.b.head("ctr", f.b.unary("sigmoid", f.b.linear(f.b.unary("relu", f.b.linear(x, 16, 8)), 8, 1)));
  const Plan p = checked_plan(f.b);
  CAPTURE(dump_plan(p));
  CHECK(count(p, OpKind::kConcat) + count(p, OpKind::kUnary) == 0);
  CHECK(p.ops.size() == 4);  // lookup, two layers, tail
  for (const PlanOp& op : p.ops) {
    if (op.kind != OpKind::kDense || op.segments[0].end != 4) continue;
    const PlanValue& out = p.values[static_cast<size_t>(op.outputs[0])];
    CHECK(out.storage == Storage::kAlias);
    CHECK(out.column == 4);
  }
}

TEST_CASE(
    "shared features are looked up once, and repeated in one copy where items are multiplied with them") {
  ModelBuilder b("shared");
  std::vector<std::string> parts;
  for (int i = 0; i < 3; ++i)
    parts.push_back(b.embed(b.categorical("u" + std::to_string(i), 5, RowSpace::kShared), 5, 4));
  for (int i = 0; i < 2; ++i) parts.push_back(b.embed(b.categorical("i" + std::to_string(i), 5), 5, 4));
  const std::string x = b.concat(parts);
  b.head("ctr", b.unary("sigmoid", b.linear(b.binary("mul", x, b.unary("relu", x)), 20, 1)));
  const Plan p = checked_plan(b);
  CHECK(count(p, OpKind::kMultiLookup) == 2);
  CHECK(count(p, OpKind::kBroadcastRows) == 1);
  CHECK(p.ops.size() == 5);
}

TEST_CASE("numbers and BatchNorm vanish into the first layer") {
  PaperShape s;
  s.batch_norm = true;
  s.hidden = {8};
  ModelBuilder b = paper_model(PaperModel::kWideDeep, s);
  const Plan p = checked_plan(b);
  CHECK(p.ops.size() == 3);
  CHECK(p.params[static_cast<size_t>(p.ops[1].params[0])].dims == Dims{2, {8, 26 * 16 + 13}});
}

/// Two chains of `length` layers between one input and one tail.
ModelBuilder two_chains(int length) {
  Fields f;
  const std::string x = f.b.concat(f.vectors);
  std::vector<std::string> ends;
  for (int c = 0; c < 2; ++c) {
    std::string y = f.b.binary("mul", x, f.b.linear(x, 12, 12));
    for (int l = 1; l < length; ++l) y = f.b.unary("relu", f.b.linear(y, 12, 12));
    ends.push_back(y);
  }
  f.b.head("ctr", f.b.unary("sigmoid", f.b.linear(f.b.concat(ends), 24, 1)));
  return std::move(f.b);
}

TEST_CASE("breadth-first alternates between the branches, depth-first ends one first") {
  ModelBuilder b = two_chains(4);
  PlanOptions o;
  o.light_branch = 0;
  Plan p = checked_plan(b, o);
  CHECK(p.n_streams == 2);
  CHECK(p.n_events == 2);  // fork and join
  for (size_t i = 1; i + 2 < p.ops.size(); ++i) CHECK(p.ops[i].stream != p.ops[i + 1].stream);
  o.schedule = ScheduleMode::kDepthFirst;
  p = checked_plan(b, o);
  CHECK(p.n_streams == 2);
  int switches = 0;
  for (size_t i = 1; i + 2 < p.ops.size(); ++i) switches += p.ops[i].stream != p.ops[i + 1].stream;
  CHECK(switches == 1);
  o.schedule = ScheduleMode::kSingleStream;
  p = checked_plan(b, o);
  CHECK(p.n_streams == 1);
  CHECK(p.n_events == 0);
  o.schedule = ScheduleMode::kBreadthFirst;
  o.max_streams = 1;
  CHECK(checked_plan(b, o).n_streams == 1);
}

/// Beside each other: one costly layer, and a chain of many light ones.
ModelBuilder heavy_and_long() {
  Fields f;
  const std::string x = f.b.concat(f.vectors);
  const std::string heavy =
      f.b.unary("relu", f.b.linear(f.b.unary("relu", f.b.linear(x, 12, 900)), 900, 900));
  std::string light = f.b.unary("relu", f.b.linear(x, 12, 12));
  for (int i = 0; i < 4; ++i) light = f.b.unary("relu", f.b.linear(light, 12, 12));
  f.b.head("ctr", f.b.unary("sigmoid", f.b.linear(f.b.concat({heavy, light}), 912, 1)));
  return std::move(f.b);
}

TEST_CASE("the branch that starts is the one with most work, most ops or least work left, as asked") {
  ModelBuilder b = heavy_and_long();
  PlanOptions o;
  o.light_branch = 0;
  o.skip = kSkipMerge;
  for (const ScheduleMode schedule : {ScheduleMode::kBreadthFirst, ScheduleMode::kDepthFirst}) {
    for (const StartOrder order : {StartOrder::kCost, StartOrder::kOps, StartOrder::kLight}) {
      o.schedule = schedule;
      o.order = order;
      const Plan p = checked_plan(b, o);
      CAPTURE(dump_plan(p));
      REQUIRE(p.n_streams == 2);
      const PlanValue& first = p.values[static_cast<size_t>(p.ops[1].outputs[0])];
      CHECK(first.dims.size() == (order == StartOrder::kCost ? 900 : 12));
    }
  }
}

TEST_CASE("a condition, what it chooses between and what comes after are one op") {
  ModelBuilder b("where");
  const std::string x = b.dense("x", 5), y = b.dense("y", 5), c = b.constant({5});
  const std::string cond = b.binary("gt", x, b.binary("add", c, c));  // folds: the sum is a constant
  const std::string chosen = b.where(cond, b.unary("log", x), y);
  b.head("h", b.linear(b.unary("relu", chosen), 5, 1));
  PlanOptions plain;
  plain.fuse = plain.fold = false;
  const Plan apart = checked_plan(b, plain), joined = checked_plan(b);
  CHECK(count(apart, OpKind::kWhere) == 1);
  CHECK(count(joined, OpKind::kWhere) + count(joined, OpKind::kBinary) + count(joined, OpKind::kUnary) == 0);
  REQUIRE(count(joined, OpKind::kElementwise) == 1);
  CHECK(dump_plan(joined).find("where(r") != std::string::npos);
}

TEST_CASE("streams do not share bytes that one stream could") {
  ModelBuilder b = two_chains(6);
  PlanOptions o;
  o.light_branch = 0;
  const Plan two = checked_plan(b, o);
  o.schedule = ScheduleMode::kSingleStream;
  const Plan one = checked_plan(b, o);
  const Result<MemoryPlan> m2 = plan_memory(two, 1000, 0, 64), m1 = plan_memory(one, 1000, 0, 64);
  REQUIRE(m1.ok());
  REQUIRE(m2.ok());
  CHECK(m1->arena_bytes <= m2->arena_bytes);
  // Memory planned for a single stream under two streams is a fault that the checker must see, or the memory
  // plans are equally large.
  MemoryPlan wrong = m2.value();
  Plan as_one = two;
  as_one.n_streams = 1;
  for (PlanOp& op : as_one.ops) {
    op.stream = 0;
    op.waits.clear();
    op.records = -1;
  }
  const Result<MemoryPlan> packed = plan_memory(as_one, 1000, 0, 64);
  REQUIRE(packed.ok());
  wrong = packed.value();
  if (packed->arena_bytes < m2->arena_bytes) CHECK_FALSE(check_plan(two, wrong, 1000, 0).ok());
}

TEST_CASE("heads that are inputs, constants, shared or named twice") {
  ModelBuilder b("heads");
  const std::string x = b.numeric("n");
  const std::string u = b.numeric("u", RowSpace::kShared);
  const std::string y = b.unary("sigmoid", b.linear(x, 1, 1));
  b.head("raw", x);
  b.head("shared", u);
  b.head("constant", b.constant({1}));
  b.head("twice", y, y);
  b.head("again", y);
  for (int variant = 0; variant < 4; ++variant) {
    PlanOptions o;
    o.fold = variant & 1;
    o.fuse = variant & 2;
    const Plan p = checked_plan(b, o);
    const TestBatch batch = random_batch(p.features, 9, 3, 5);
    const Scores s = interpret(p, batch, b.tables());
    for (int64_t r = 0; r < 9; ++r) {
      const float* row = s.value.data() + r * 5;
      CHECK(row[0] == batch.floats[0][static_cast<size_t>(r)]);
      CHECK(row[1] == batch.floats[1][static_cast<size_t>(batch.row_map[static_cast<size_t>(r)])]);
      CHECK(row[2] == s.value[2]);
      CHECK(row[3] == row[4]);
      CHECK(s.logit[static_cast<size_t>(r * 5 + 3)] == row[3]);
    }
  }
}

TEST_CASE("options and sizes that cannot be") {
  ModelBuilder b = two_chains(1);
  PlanOptions o;
  o.max_streams = 0;
  CHECK_FALSE(make_plan(b.graph(), o).ok());
}

TEST_CASE("dumps are stable, and DOT has a cluster for each stream") {
  ModelBuilder b = two_chains(3);
  PlanOptions o;
  CHECK(checked_plan(b, o).n_streams == 1);  // branches this light get no stream of their own
  o.light_branch = 0;
  const Plan p = checked_plan(b, o);
  CHECK(dump_plan(p) == dump_plan(checked_plan(b, o)));
  const std::string dot = dump_plan_dot(p);
  CHECK(dot.find("cluster_1") != std::string::npos);
  CHECK(std::count(dot.begin(), dot.end(), '{') == std::count(dot.begin(), dot.end(), '}'));
}

}  // namespace
}  // namespace dpi::test::structure_test
