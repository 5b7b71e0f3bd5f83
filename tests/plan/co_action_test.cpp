// CAN's co-actions are found however they are written, with every option, and nothing else is taken for one:
// scores stay those of the primitives either way. The op itself is held to float64 by tests/kernels, whole
// models by weights/python/tests/test_can.py.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "plan/checked_plan.hpp"
#include "support/interpreter.hpp"
#include "support/source_dir.hpp"

namespace dpi::test::co_action_test {
namespace {

constexpr int64_t kItems = 5, kVocabulary = 7;
constexpr int64_t kRows = 9, kShared = 3;

enum class Weights { kShared, kIndependent, kJoined };
enum class Pool { kProduct, kReduce, kFactor, kSingle };
enum class Rows { kItem, kSharedHistory, kSharedInduction, kAllShared };

/// What is wrong with a graph that is no co-action; it still has a meaning.
enum class Fault {
  kNone,
  kNoMask,
  kOtherMask,
  kMaskTwice,
  kWeightsTransposed,
  kWeightsReversed,
  kOtherBias,
  kHalved,
  kLevelIsRead,
  kPowersDiffer,
  kColumnsSwapped,
  kCountWithoutOne,
  kApart,
  kCount
};

struct Drawn {
  std::vector<int64_t> widths{4, 3, 2};
  int64_t orders = 2;
  Weights weights = Weights::kShared;
  Pool pool = Pool::kProduct;
  Rows rows = Rows::kItem;
  std::string activation = "tanh";
  bool act_on_last = false, bias = false, last_only = false, added = false, mean = false, together = true;
  const char* rule = "length";
  Fault fault = Fault::kNone;

  /// Each level of each order goes into the Concat of all features by itself.
  bool in_pieces() const { return !together && !added && (weights != Weights::kShared || orders == 1); }
};

class Writer {
 public:
  explicit Writer(Drawn d) : d_(std::move(d)), b_("can") {}

  /// A model whose only score is a linear map of the co-action.
  ModelBuilder model() {
    const bool shared_history = d_.rows == Rows::kSharedHistory || d_.rows == Rows::kAllShared;
    const bool shared_item = d_.rows == Rows::kSharedInduction || d_.rows == Rows::kAllShared;
    const std::string item =
        b_.categorical("item", kVocabulary, shared_item ? RowSpace::kShared : RowSpace::kItem);
    induction_ = b_.embed(item, kVocabulary, 3 + induction_numbers());
    const RowSpace space = shared_history ? RowSpace::kShared : RowSpace::kItem;
    if (d_.pool == Pool::kSingle) {
      feed_ = b_.reshape(
          slice(b_.embed(b_.categorical("user", 6, space), 6, d_.widths[0] + 2), 0, 1, 1 + d_.widths[0]),
          {1, d_.widths[0]});
    } else {
      const std::string history = b_.sequence("history", 6, kItems, space);
      feed_ = slice(b_.embed(history, 6, d_.widths[0] + 2, {{"pooling", "none"}}), 1, 1, 1 + d_.widths[0]);
      const bool other = d_.fault == Fault::kOtherMask;
      mask_ = b_.op("Mask", {other ? b_.sequence("other", 6, kItems, space) : history}, {{"rule", d_.rule}});
    }
    std::vector<std::string> parts = written();
    const std::string plain = b_.embed(b_.categorical("field", 4), 4, 2);
    parts.insert(d_.fault == Fault::kApart ? parts.begin() + 1 : parts.end(), plain);
    const std::string logit = b_.linear(b_.concat(parts), width_ + 2, 1);
    b_.head("ctr", b_.unary("sigmoid", logit), logit);
    if (d_.fault == Fault::kLevelIsRead)
      b_.head("level", b_.reduce("sum", b_.reshape(level_, {level_size_}), 0, true));
    return std::move(b_);
  }

 private:
  int64_t positions() const { return d_.pool == Pool::kSingle ? 1 : kItems; }
  int64_t runs() const { return d_.weights == Weights::kJoined ? 1 : d_.orders; }
  int64_t first_width() const { return d_.widths[0] * (d_.weights == Weights::kJoined ? d_.orders : 1); }

  int64_t micro_numbers() const {
    int64_t n = 0, in = first_width();
    for (size_t l = 1; l < d_.widths.size(); in = d_.widths[l++])
      n += in * d_.widths[l] + (d_.bias ? d_.widths[l] : 0);
    return n;
  }
  int64_t induction_numbers() const {
    return micro_numbers() * (d_.weights == Weights::kIndependent ? d_.orders : 1);
  }

  std::string slice(const std::string& x, int64_t axis, int64_t begin, int64_t end) {
    return b_.op("View", {x}, {{"kind", "slice"}, {"axis", axis}, {"begin", begin}, {"end", end}});
  }
  std::string columns(int64_t n, std::vector<int64_t> dims) {
    at_ += n;
    const std::string cut = slice(induction_, 0, at_ - n, at_);
    if (d_.fault != Fault::kWeightsReversed) return b_.reshape(cut, dims);
    std::vector<int64_t> back(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) back[static_cast<size_t>(i)] = n - 1 - i;
    return b_.reshape(
        b_.op("View", {cut}, {{"kind", "index_select"}, {"axis", int64_t{0}}, {"indices", back}}), dims);
  }
  std::string matmul(const std::string& a, const std::string& b, bool transposed = false) {
    ModelBuilder::Attrs attrs;
    if (transposed) attrs["trans_b"] = true;
    if (d_.fault == Fault::kHalved && transposed == false && a != mask_row_) attrs["alpha"] = 0.5;
    return b_.op("MatMul", {a, b}, attrs);
  }

  std::vector<std::string> powers() {
    std::vector<std::string> all{feed_};
    while (static_cast<int64_t>(all.size()) < d_.orders) {
      const bool skip = d_.fault == Fault::kPowersDiffer && all.size() + 1 == static_cast<size_t>(d_.orders);
      all.push_back(b_.binary("mul", all.back(), skip ? all.back() : feed_));
      if (skip) all.back() = b_.binary("mul", all.back(), all.back());
    }
    return all;
  }

  /// The collected levels of one micro-MLP over rows x, each [rows, n].
  std::vector<std::string> levels(std::string x) {
    std::vector<std::string> kept;
    int64_t in = first_width();
    for (size_t l = 1; l < d_.widths.size(); in = d_.widths[l++]) {
      const int64_t out = d_.widths[l];
      const bool turned = d_.fault == Fault::kWeightsTransposed;
      x = matmul(x, columns(in * out, turned ? std::vector<int64_t>{out, in} : std::vector<int64_t>{in, out}),
                 turned);
      if (d_.bias) x = b_.binary("add", x, bias(out));
      const bool last = l + 1 == d_.widths.size();
      if ((!last || d_.act_on_last) && d_.activation != "none") x = b_.unary(d_.activation, x);
      if (l == 1)
        level_ = x, level_size_ = positions() * (d_.weights == Weights::kShared ? d_.orders : 1) * out;
      if (last || !d_.last_only) kept.push_back(x);
    }
    return kept;
  }
  std::string bias(int64_t out) {
    if (d_.fault != Fault::kOtherBias) return columns(out, {1, out});
    at_ += out;
    return b_.reshape(b_.embed(b_.categorical("b" + std::to_string(at_), 3), 3, out), {1, out});
  }
  std::vector<int64_t> kept_widths() const {
    return {d_.last_only ? d_.widths.end() - 1 : d_.widths.begin() + 1, d_.widths.end()};
  }

  /// [T, n] -> [n].
  std::string pooled(const std::string& x, int64_t n) {
    if (d_.pool == Pool::kSingle) return b_.reshape(x, {n});
    if (d_.fault == Fault::kNoMask) return b_.reduce("sum", x, 0, false);
    std::string y = x;
    if (d_.fault == Fault::kMaskTwice) y = b_.binary("mul", y, b_.reshape(mask_, {kItems, 1}));
    if (d_.pool == Pool::kFactor)
      y = b_.reduce("sum", b_.binary("mul", y, b_.reshape(mask_, {kItems, 1})), 0, false);
    if (d_.pool == Pool::kReduce) {
      const std::string kind = d_.mean ? "mean" : "sum";
      return b_.op("Reduce", {y, mask_}, {{"kind", kind}, {"axis", int64_t{0}}});
    }
    if (d_.pool == Pool::kProduct) {
      mask_row_ = b_.reshape(mask_, {1, kItems});
      y = b_.reshape(matmul(mask_row_, y), {n});
    }
    if (!d_.mean) return y;
    const std::string sum = b_.reduce("sum", mask_, 0, true);
    const bool wrong = d_.fault == Fault::kCountWithoutOne;
    return b_.binary("div", y, b_.binary("max", sum, b_.constant_of({1}, {wrong ? 2.0f : 1.0f})));
  }

  /// The pooled levels [runs, n] of rows that hold all orders, position by position.
  std::vector<std::string> pooled_levels(const std::vector<std::string>& kept, int64_t runs) {
    const std::vector<int64_t> widths = kept_widths();
    std::vector<std::string> all;
    for (size_t k = 0; k < kept.size(); ++k) {
      const int64_t n = runs * widths[k];
      all.push_back(b_.reshape(pooled(b_.reshape(kept[k], {positions(), n}), n), {runs, widths[k]}));
    }
    return all;
  }

  std::vector<std::string> pieces(const std::vector<std::string>& powers) {
    const std::vector<int64_t> widths = kept_widths();
    std::vector<std::string> all;
    for (int64_t p = 0; p < runs(); ++p) {
      const std::vector<std::string> kept =
          levels(d_.weights == Weights::kJoined ? b_.concat(powers, 1) : powers[static_cast<size_t>(p)]);
      for (size_t k = 0; k < kept.size(); ++k) all.push_back(pooled(kept[k], widths[k]));
    }
    return all;
  }

  /// The co-action, in one value or in the pieces that a Concat of all features takes.
  std::vector<std::string> written() {
    const std::vector<std::string> x = powers();
    int64_t wide = 0;
    for (const int64_t n : kept_widths()) wide += n;
    at_ = 2;
    std::vector<std::string> orders;
    if (d_.in_pieces()) {
      width_ = wide * runs();
      return pieces(x);
    }
    if (d_.weights == Weights::kIndependent) {
      for (const std::string& power : x) orders.push_back(b_.concat(pooled_levels(levels(power), 1), 1));
    } else {
      std::string rows = b_.concat(x, 1);
      if (d_.weights == Weights::kShared) rows = b_.reshape(rows, {positions() * d_.orders, d_.widths[0]});
      orders = {b_.concat(pooled_levels(levels(rows), runs()), 1)};
    }
    std::string out = b_.concat(orders, 0);
    width_ = wide * runs();
    if (d_.added && runs() > 1) {
      width_ = wide;
      return {b_.reduce("sum", out, 0, false)};
    }
    out = b_.reshape(out, {width_});
    if (d_.fault != Fault::kColumnsSwapped) return {out};
    return {b_.concat({slice(out, 0, 1, 2), slice(out, 0, 0, 1), slice(out, 0, 2, width_)}, 0)};
  }

  Drawn d_;
  ModelBuilder b_;
  std::string induction_, feed_, mask_, mask_row_, level_;
  int64_t level_size_ = 0, at_ = 0, width_ = 0;
};

Drawn drawn(std::mt19937& random) {
  const auto pick = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  Drawn d;
  d.widths.resize(2 + pick(3));
  for (int64_t& w : d.widths) w = static_cast<int64_t>(2 + pick(4));
  d.orders = static_cast<int64_t>(1 + pick(4));
  d.weights = static_cast<Weights>(pick(3));
  d.pool = static_cast<Pool>(pick(4));
  d.rows = static_cast<Rows>(pick(4));
  static const char* const kActivations[] = {"tanh", "relu", "sigmoid", "selu", "none"};
  d.activation = kActivations[pick(5)];
  d.act_on_last = pick(2) != 0;
  d.bias = pick(2) != 0;
  d.last_only = pick(2) != 0;
  d.added = pick(3) == 0;
  d.together = pick(2) != 0;
  d.mean = d.pool != Pool::kSingle && pick(2) != 0;
  d.rule = pick(2) != 0 ? "length" : "id";
  return d;
}

std::string text_of(const Drawn& d) {
  std::ostringstream s;
  s << "widths";
  for (const int64_t w : d.widths) s << " " << w;
  s << " orders " << d.orders << " weights " << static_cast<int>(d.weights) << " pool "
    << static_cast<int>(d.pool) << " rows " << static_cast<int>(d.rows) << " " << d.activation
    << " act_on_last " << d.act_on_last << " bias " << d.bias << " last " << d.last_only << " added "
    << d.added << " mean " << d.mean << " together " << d.together << " rule " << d.rule << " fault "
    << static_cast<int>(d.fault);
  return s.str();
}

int64_t co_actions(const Plan& p) {
  return std::count_if(p.ops.begin(), p.ops.end(),
                       [](const PlanOp& op) { return op.kind == OpKind::kCoAction; });
}

/// Plans with folds and fuses on and off give the scores of the primitives; gives the ops of the fused plan.
int64_t check_scores(const Drawn& d, uint32_t seed) {
  ModelBuilder b = Writer(d).model();
  PlanOptions plain;
  plain.fold = plain.fuse = false;
  const Plan reference = checked_plan(b, plain);
  const TestBatch batch = random_batch(reference.features, kRows, kShared, seed);
  const Scores expected = interpret(reference, batch, b.tables());
  int64_t found = 0;
  for (const bool fold : {false, true}) {
    PlanOptions options;
    options.fold = fold;
    const Plan plan = checked_plan(b, options);
    CAPTURE(dump_plan(plan));
    const Scores got = interpret(plan, batch, b.tables());
    for (size_t i = 0; i < expected.logit.size(); ++i) {
      const double e = plan.heads[i % plan.heads.size()].logit < 0 ? expected.value[i] : expected.logit[i];
      const double g = plan.heads[i % plan.heads.size()].logit < 0 ? got.value[i] : got.logit[i];
      REQUIRE(std::isfinite(e));
      CHECK(std::fabs(g - e) <= 2e-6 * std::max(1.0, std::fabs(e)));
    }
    found = co_actions(plan);
  }
  return found;
}

/// One level in one order without an activation is a product like others.
bool bends(const Drawn& d) {
  const bool acts = d.act_on_last && d.activation != "none";
  return d.widths.size() > 2 || d.orders > 1 || acts;
}

TEST_CASE("co-actions are found with every option, and scores stay") {
  std::mt19937 random(1);
  for (int k = 0; k < 600; ++k) {
    const Drawn d = drawn(random);
    CAPTURE(text_of(d));
    CHECK(check_scores(d, static_cast<uint32_t>(k)) == (bends(d) ? 1 : 0));
  }
}

TEST_CASE("the released sizes are one op, as recorded") {
  Drawn d;
  d.widths = {16, 8, 4};
  d.orders = 3;
  d.rule = "id";
  CHECK(check_scores(d, 5) == 1);
  ModelBuilder b = Writer(d).model();
  const Plan plan = checked_plan(b);
  for (const auto& [text, name] :
       {std::pair{dump_plan(plan), "can.txt"}, std::pair{dump_plan_dot(plan), "can.dot"}}) {
    const std::string path = source_dir() + "/tests/plan/golden/" + name;
    if (std::getenv("DPI_UPDATE_GOLDEN")) std::ofstream(path) << text;
    std::ifstream file(path);
    std::stringstream recorded;
    recorded << file.rdbuf();
    CAPTURE(path);
    CHECK(text == recorded.str());
  }
}

TEST_CASE("what is no co-action stays as it is") {
  std::mt19937 random(2);
  for (int fault = 1; fault < static_cast<int>(Fault::kCount); ++fault) {
    for (int k = 0; k < 40; ++k) {
      Drawn d = drawn(random);
      d.fault = static_cast<Fault>(fault);
      d.pool = k % 2 == 0 ? Pool::kProduct : Pool::kFactor;
      d.widths = {4, 3, 2};
      d.last_only = d.added = false;
      d.rows = Rows::kItem;
      if (d.fault == Fault::kPowersDiffer) d.orders = 3;
      if (d.fault == Fault::kOtherBias) d.bias = true;
      if (d.fault == Fault::kCountWithoutOne) d.mean = true;
      if (d.fault == Fault::kHalved && d.weights == Weights::kIndependent) d.weights = Weights::kShared;
      if (d.fault == Fault::kColumnsSwapped) d.together = true;
      if (d.fault == Fault::kApart) {
        d.together = false;
        d.weights = Weights::kJoined;
      }
      const bool of_one_order = d.fault == Fault::kPowersDiffer || d.fault == Fault::kLevelIsRead;
      if (of_one_order) d.weights = Weights::kShared;  // else the other orders are a co-action each
      CAPTURE(text_of(d));
      // Columns in another order are put so behind the op.
      CHECK(check_scores(d, static_cast<uint32_t>(k)) == (d.fault == Fault::kColumnsSwapped ? 1 : 0));
    }
  }
}

}  // namespace
}  // namespace dpi::test::co_action_test
