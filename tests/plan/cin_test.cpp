// Compressed interactions are one op a layer however they are written, what only looks like them keeps its
// primitives, and scores stay those of the primitives either way. The op itself is held to float64 by
// tests/kernels, whole models on every device by tests/e2e/random/cin_test.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "plan/checked_plan.hpp"
#include "support/interpreter.hpp"

namespace dpi::test::cin_test {
namespace {

constexpr int64_t kRows = 9, kShared = 3;

/// What is wrong with a graph whose layers are no compressed interactions; it still has a meaning.
enum class Fault { kNone, kSum, kProductIsRead, kLastAxis, kTransposed, kCount };

struct Drawn {
  int64_t fields = 3, dim = 4;
  std::vector<int64_t> maps{2, 2};
  bool before_first = false;  // the maps so far come first in the product
  bool bias = true, relu = false;
  bool weights_differ = false;  // the head weighs the elements of a map one by one
  Fault fault = Fault::kNone;
};

class Writer {
 public:
  explicit Writer(Drawn d) : d_(std::move(d)), b_("cin") {}

  ModelBuilder model() {
    std::vector<std::string> vectors;
    for (int64_t i = 0; i < d_.fields; ++i) {
      const std::string id = b_.categorical("c" + std::to_string(i), 7);
      vectors.push_back(b_.embed(id, 7, d_.dim));
    }
    const std::string x0 = b_.concat(vectors);
    std::string x = x0;
    int64_t n = d_.fields;
    std::vector<std::string> pooled;
    for (const int64_t maps : d_.maps) {
      x = layer(x0, x, n, maps);
      pooled.push_back(d_.weights_differ ? b_.reshape(x, {maps * d_.dim}) : b_.reduce("sum", x, 1, false));
      n = maps;
    }
    int64_t width = 0;
    for (const int64_t maps : d_.maps) width += maps * (d_.weights_differ ? d_.dim : 1);
    const std::string logit = b_.linear(b_.concat(pooled), width, 1);
    b_.head("ctr", b_.unary("sigmoid", logit), logit);
    return std::move(b_);
  }

 private:
  std::string layer(const std::string& x0, const std::string& x, int64_t n, int64_t maps) {
    const std::string first = b_.reshape(x0, {d_.fields, 1, d_.dim}), then = b_.reshape(x, {1, n, d_.dim});
    const std::string before = b_.reshape(x, {n, 1, d_.dim}), last = b_.reshape(x0, {1, d_.fields, d_.dim});
    const char* const kind = d_.fault == Fault::kSum ? "add" : "mul";
    const std::string z = d_.before_first ? b_.binary(kind, before, last) : b_.binary(kind, first, then);
    if (d_.fault == Fault::kProductIsRead) b_.head("z" + std::to_string(heads_++), read(z));
    ModelBuilder::Params p{{"weight", b_.param({maps, d_.fields * n}, 1.0 / std::sqrt(d_.fields * n))}};
    if (d_.bias) p["bias"] = b_.param({maps}, 0.2);
    std::string y;
    if (d_.fault == Fault::kLastAxis) {
      y = b_.op("View", {b_.reshape(z, {d_.fields * n, d_.dim})},
                {{"kind", "transpose"}, {"perm", std::vector<int64_t>{1, 0}}});
      y = b_.reshape(b_.op("Linear", {y}, {}, p), {maps, d_.dim});
    } else {
      y = d_.fault == Fault::kTransposed
              ? b_.reshape(
                    b_.op("View", {z}, {{"kind", "transpose"}, {"perm", std::vector<int64_t>{1, 0, 2}}}),
                    {d_.fields * n, d_.dim})
              : b_.reshape(z, {d_.fields * n, d_.dim});
      y = b_.op("Linear", {y}, {{"axis", "field"}}, p);
    }
    return d_.relu ? b_.unary("relu", y) : y;
  }
  std::string read(const std::string& z) {
    return b_.reduce("sum", b_.reduce("sum", b_.reduce("sum", z, 2, false), 1, false), 0, true);
  }

  Drawn d_;
  ModelBuilder b_;
  int heads_ = 0;
};

Drawn drawn(std::mt19937& random) {
  const auto pick = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  Drawn d;
  d.fields = static_cast<int64_t>(2 + pick(5));
  d.dim = static_cast<int64_t>(2 + pick(5));
  d.maps.resize(1 + pick(3));
  for (int64_t& n : d.maps) n = static_cast<int64_t>(2 + pick(8));
  d.before_first = pick(2) != 0;
  d.bias = pick(3) != 0;
  d.relu = pick(3) == 0;
  d.weights_differ = pick(4) == 0;
  return d;
}

std::string text_of(const Drawn& d) {
  std::ostringstream s;
  s << d.fields << " fields of " << d.dim << ", maps";
  for (const int64_t n : d.maps) s << " " << n;
  s << " before_first " << d.before_first << " bias " << d.bias << " relu " << d.relu << " weights_differ "
    << d.weights_differ << " fault " << static_cast<int>(d.fault);
  return s.str();
}

std::vector<const PlanOp*> layers(const Plan& p) {
  std::vector<const PlanOp*> found;
  for (const PlanOp& op : p.ops) {
    if (op.kind == OpKind::kCin) found.push_back(&op);
  }
  return found;
}

/// Plans give the scores of the primitives, with these folds; gives the last of them.
Plan check_scores(const Drawn& d, uint32_t seed, std::initializer_list<bool> folds = {false, true}) {
  ModelBuilder b = Writer(d).model();
  PlanOptions plain;
  plain.fold = plain.fuse = false;
  const Plan reference = checked_plan(b, plain);
  const TestBatch batch = random_batch(reference.features, kRows, kShared, seed);
  const Scores expected = interpret(reference, batch, b.tables());
  Plan plan;
  for (const bool fold : folds) {
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

TEST_CASE("compressed interactions are one op a layer, and scores stay") {
  std::mt19937 random(7);
  for (uint32_t k = 0; k < 300; ++k) {
    const Drawn d = drawn(random);
    CAPTURE(text_of(d));
    const Plan plan = check_scores(d, k);
    const std::vector<const PlanOp*> found = layers(plan);
    REQUIRE(found.size() == d.maps.size());
    CHECK(found[0]->inputs[1] == -1);  // pairs of fields with themselves are taken once
    const int64_t pairs = d.fields * (d.fields + 1) / 2;
    CHECK(plan.params[static_cast<size_t>(found[0]->params[0])].dims.size() % pairs == 0);
    const Dims last = plan.values[static_cast<size_t>(found.back()->outputs[0])].dims;
    CHECK(last.d[0] == (d.relu || d.weights_differ ? d.maps.back() : 1));
  }
}

TEST_CASE("without folds no weights are added up") {
  const Plan plan = check_scores({}, 3, {false});
  for (const PlanOp* op : layers(plan)) {
    CHECK(op->inputs[1] >= 0);
    CHECK(plan.values[static_cast<size_t>(op->outputs[0])].dims.d[0] == 2);
  }
  CHECK(layers(plan).size() == 2);
}

TEST_CASE("what looks like compressed interactions keeps its primitives") {
  std::mt19937 random(11);
  for (int fault = 1; fault < static_cast<int>(Fault::kCount); ++fault) {
    for (uint32_t k = 0; k < 20; ++k) {
      Drawn d = drawn(random);
      d.fault = static_cast<Fault>(fault);
      CAPTURE(text_of(d));
      CHECK(layers(check_scores(d, k)).empty());
    }
  }
}

TEST_CASE("debug.skip=cin leaves the primitives") {
  ModelBuilder b = Writer({}).model();
  PlanOptions options;
  CHECK(parse_skip("cin", &options.skip));
  CHECK(layers(checked_plan(b, options)).empty());
}

}  // namespace
}  // namespace dpi::test::cin_test
