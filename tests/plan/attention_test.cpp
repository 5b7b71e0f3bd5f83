// Softmax between two products: what becomes one op and what stays, and, behind a transformer block, which
// layers leave padded positions out. The scores are those of the primitives either way. The op itself is held
// to float64 by tests/kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "plan/checked_plan.hpp"
#include "support/interpreter.hpp"

namespace dpi::test::attention_test {
namespace {

constexpr int64_t kWide = 8;  // of what queries, keys and values are made of

enum class Form { kByPosition, kSideBySide, kHeadsFirst, kOneHead };
enum class Scale { kNone, kAffine, kMul, kDiv, kAlpha, kTwice };
enum class Mask { kNone, kKeys, kWithTarget, kQueries, kHeads, kCausal };

/// What is wrong with a graph that is no such attention; it still has a meaning.
enum class Fault {
  kNone,
  kOtherAxis,
  kScoresRead,
  kWeightsRead,
  kShifted,
  kSecondScaled,
  kFewQueries,
  kSharedKeys,
  kColumnsMixed,
  kMaskAlongQueries,
  kCount
};

struct Drawn {
  int64_t heads = 2, positions = 5, dim = 3, value_dim = 4;
  Form form = Form::kByPosition;
  Scale scale = Scale::kNone;
  Mask mask = Mask::kNone;
  std::string mode = "replace";
  double value = -1e9;
  bool turned = true;  // keys come transposed; else trans_b
  bool merged = true;  // the heads go side by side again
  Fault fault = Fault::kNone;
};

using Ints = std::vector<int64_t>;

class Writer {
 public:
  explicit Writer(Drawn d) : d_(std::move(d)), b_("attention") {
    if (d_.form == Form::kOneHead) d_.heads = 1;
    if (d_.form == Form::kSideBySide) d_.value_dim = d_.dim;
  }

  ModelBuilder model() {
    history_ = b_.sequence("history", 7, d_.positions);
    const std::string x = b_.embed(history_, 7, kWide, {{"pooling", "none"}});
    const std::string y = attention(x);
    const int64_t n = queries() * d_.heads * d_.value_dim;
    const std::string logit = b_.linear(b_.reshape(y, {n}), n, 1);
    b_.head("ctr", b_.unary("sigmoid", logit), logit);
    if (!read_.empty()) b_.head("read", b_.reduce("sum", b_.reshape(read_, {read_size_}), 0, true));
    return std::move(b_);
  }

 private:
  int64_t queries() const { return d_.fault == Fault::kFewQueries ? 3 : d_.positions; }
  std::string transposed(const std::string& x, const Ints& perm) {
    return b_.op("View", {x}, {{"kind", "transpose"}, {"perm", perm}});
  }
  std::string slice(const std::string& x, int64_t axis, int64_t begin, int64_t end) {
    return b_.op("View", {x}, {{"kind", "slice"}, {"axis", axis}, {"begin", begin}, {"end", end}});
  }
  /// [positions, heads columns] -> [heads, positions, columns] or [heads, columns, positions]; one head:
  /// without heads.
  std::string by_head(const std::string& x, int64_t positions, int64_t columns, bool turned) {
    if (d_.form == Form::kOneHead) return turned ? transposed(x, {1, 0}) : x;
    if (d_.form == Form::kHeadsFirst) {
      const std::string first = b_.reshape(x, {d_.heads, positions, columns});
      return turned ? transposed(first, {0, 2, 1}) : first;
    }
    std::string split = b_.reshape(x, {positions, d_.heads, columns});
    if (d_.fault == Fault::kColumnsMixed) {  // columns of a head lie apart
      split = transposed(b_.reshape(x, {positions, columns, d_.heads}), {0, 2, 1});
    }
    return transposed(split, turned ? Ints{1, 2, 0} : Ints{1, 0, 2});
  }
  std::string scaled(std::string x) {
    if (d_.scale == Scale::kAffine || d_.scale == Scale::kTwice)
      x = b_.unary("affine", x, {{"a", 0.6}, {"b", d_.fault == Fault::kShifted ? 0.25 : 0.0}});
    if (d_.scale == Scale::kMul || d_.scale == Scale::kTwice)
      x = b_.binary("mul", x, b_.constant_of({1}, {1.75f}));
    if (d_.scale == Scale::kDiv) x = b_.binary("div", x, b_.constant_of({1, 1}, {1.5f}));
    return x;
  }
  /// "" without a mask.
  std::string mask() {
    if (d_.mask == Mask::kNone) return "";
    const std::string counts = b_.op("Mask", {history_}, {{"rule", "length"}});
    if (d_.fault == Fault::kMaskAlongQueries) return b_.reshape(counts, {d_.positions, 1});
    if (d_.mask == Mask::kKeys) return counts;
    if (d_.mask == Mask::kWithTarget)
      return b_.concat({slice(counts, 0, 0, d_.positions - 1), b_.constant_of({1}, {1})}, 0);
    if (d_.mask == Mask::kCausal) {
      std::vector<float> m;
      for (int64_t i = 0; i < d_.positions * d_.positions; ++i)
        m.push_back(i % d_.positions <= i / d_.positions ? 1.0f : 0.0f);
      return b_.constant_of({d_.positions, d_.positions}, m);
    }
    const std::string square =
        b_.binary("mul", b_.reshape(counts, {d_.positions, 1}), b_.reshape(counts, {1, d_.positions}));
    if (d_.mask == Mask::kQueries || d_.form == Form::kOneHead) return square;
    return b_.op("View", {square},
                 {{"kind", "expand"}, {"dims", Ints{d_.heads, d_.positions, d_.positions}}});
  }
  void reads(const std::string& x) {
    read_ = x;
    read_size_ = d_.heads * queries() * d_.positions;
  }

  std::string attention(const std::string& x) {
    const int64_t width = d_.heads * d_.dim, wide = d_.heads * d_.value_dim;
    std::string q, k, v;
    if (d_.form == Form::kSideBySide) {
      const std::string all = b_.linear(x, kWide, 3 * width);
      q = slice(all, 1, 0, width);
      k = slice(all, 1, width, 2 * width);
      v = slice(all, 1, 2 * width, 3 * width);
    } else {
      std::string keys = x;
      if (d_.fault == Fault::kSharedKeys)
        keys = b_.embed(b_.sequence("shared", 7, d_.positions, RowSpace::kShared), 7, kWide,
                        {{"pooling", "none"}});
      q = b_.linear(x, kWide, width);
      k = b_.linear(keys, kWide, width);
      v = b_.linear(x, kWide, wide);
    }
    if (d_.fault == Fault::kFewQueries) q = slice(q, 0, 0, 3);
    ModelBuilder::Attrs first, second;
    if (!d_.turned) first["trans_b"] = true;
    if (d_.scale == Scale::kAlpha) first["alpha"] = 0.4;
    if (d_.fault == Fault::kSecondScaled) second["alpha"] = 2.0;
    const std::string product = b_.op(
        "MatMul", {by_head(q, queries(), d_.dim, false), by_head(k, d_.positions, d_.dim, d_.turned)}, first);
    const std::string scores = scaled(product), m = mask();
    ModelBuilder::Attrs attrs;
    if (d_.fault == Fault::kOtherAxis) attrs["axis"] = int64_t{-2};
    std::vector<std::string> inputs{scores};
    if (!m.empty()) {
      inputs.push_back(m);
      attrs["mask_mode"] = d_.mode;
      attrs["value"] = d_.value;
    }
    const std::string weights = b_.op("Softmax", inputs, attrs);
    if (d_.fault == Fault::kScoresRead) reads(scores);
    if (d_.fault == Fault::kWeightsRead) reads(weights);
    const std::string y = b_.op("MatMul", {weights, by_head(v, d_.positions, d_.value_dim, false)}, second);
    if (!d_.merged || d_.form == Form::kOneHead) return y;
    return b_.reshape(transposed(y, {1, 0, 2}), {queries(), wide});
  }

  Drawn d_;
  ModelBuilder b_;
  std::string history_, read_;
  int64_t read_size_ = 0;
};

template <class E>
E one_of(std::mt19937& random, int n) {
  return static_cast<E>(random() % static_cast<uint32_t>(n));
}

Drawn drawn(std::mt19937& random) {
  Drawn d;
  d.heads = one_of<int>(random, 3) + 1;
  d.positions = one_of<int>(random, 6) + 4;
  d.dim = one_of<int>(random, 5) + 1;
  d.value_dim = one_of<int>(random, 5) + 1;
  d.form = one_of<Form>(random, 4);
  d.scale = one_of<Scale>(random, 6);
  d.mask = one_of<Mask>(random, 6);
  const char* const modes[] = {"ninf", "add", "replace"};
  d.mode = modes[random() % 3];
  d.value = random() % 3 == 0 ? -1.25 : -1e9;
  d.turned = random() % 2 == 0;
  d.merged = random() % 2 == 0;
  return d;
}

std::string text_of(const Drawn& d) {
  std::ostringstream s;
  s << d.heads << " heads, " << d.positions << " positions of " << d.dim << " and " << d.value_dim
    << ", form " << static_cast<int>(d.form) << " scale " << static_cast<int>(d.scale) << " mask "
    << static_cast<int>(d.mask) << " " << d.mode << " " << d.value << " turned " << d.turned << " merged "
    << d.merged << " fault " << static_cast<int>(d.fault);
  return s.str();
}

int64_t count_of(const Plan& p, OpKind kind) {
  return std::count_if(p.ops.begin(), p.ops.end(), [&](const PlanOp& op) { return op.kind == kind; });
}

/// Attentions that the plan made; the format's own are there from the start.
int64_t made_by_plan(const Plan& p) {
  return std::count_if(p.ops.begin(), p.ops.end(), [](const PlanOp& op) {
    return op.kind == OpKind::kAttention && std::get<kernels::AttentionAttrs>(op.attrs).streamed == 0;
  });
}

/// Plans with folds, fuses and `skip` on and off give the scores of the primitives; gives the fused plan.
Plan same_scores(ModelBuilder& b, uint32_t seed) {
  PlanOptions plain;
  plain.fold = plain.fuse = false;
  const Plan written = checked_plan(b, plain);
  const TestBatch batch = random_batch(written.features, 9, 3, seed);
  const Scores want = interpret(written, batch, b.tables());
  for (int variant = 0; variant < 8; ++variant) {
    PlanOptions options;
    options.fold = (variant & 1) != 0;
    options.fuse = (variant & 2) != 0;
    if ((variant & 4) != 0) options.skip = kSkipAttention;
    const Plan made = checked_plan(b, options);
    CAPTURE(dump_plan(made));
    if ((variant & 4) != 0 || !options.fuse) CHECK(made_by_plan(made) == 0);
    const Scores got = interpret(made, batch, b.tables());
    for (size_t i = 0; i < want.value.size(); ++i) {
      const bool logit = made.heads[i % made.heads.size()].logit >= 0;
      const double e = logit ? want.logit[i] : want.value[i], g = logit ? got.logit[i] : got.value[i];
      REQUIRE(std::isfinite(e));
      CHECK(std::fabs(g - e) <= 2e-6 * std::max(1.0, std::fabs(e)));
    }
  }
  return checked_plan(b);
}

}  // namespace

TEST_CASE("attention is one op in every form, and scores stay") {
  std::mt19937 random(1);
  for (uint32_t k = 0; k < 300; ++k) {
    const Drawn d = drawn(random);
    CAPTURE(text_of(d));
    ModelBuilder b = Writer(d).model();
    const Plan p = same_scores(b, k);
    CHECK(count_of(p, OpKind::kAttention) == 1);
    CHECK(count_of(p, OpKind::kSoftmax) + count_of(p, OpKind::kMatMul) == 0);
    const bool moved = d.mask != Mask::kHeads || d.form == Form::kOneHead;  // a mask for each head is a copy
    if (d.merged && moved && d.mask != Mask::kWithTarget) CHECK(count_of(p, OpKind::kView) == 0);
  }
}

TEST_CASE("what is no such attention stays as it is") {
  std::mt19937 random(2);
  for (int fault = 1; fault < static_cast<int>(Fault::kCount); ++fault) {
    for (uint32_t k = 0; k < 30; ++k) {
      Drawn d = drawn(random);
      d.fault = static_cast<Fault>(fault);
      if (d.fault == Fault::kShifted) d.scale = Scale::kAffine;
      if (d.fault == Fault::kOtherAxis || d.fault == Fault::kFewQueries) d.mask = Mask::kNone;
      if (d.fault == Fault::kMaskAlongQueries) d.mask = Mask::kKeys;
      if (d.fault == Fault::kColumnsMixed || d.fault == Fault::kSharedKeys) {
        d.form = Form::kByPosition;
        d.heads = 2;
        d.dim = d.value_dim = 3;
      }
      CAPTURE(text_of(d));
      ModelBuilder b = Writer(d).model();
      const int64_t found = count_of(same_scores(b, k), OpKind::kAttention);
      // Vectors that lie apart are put together by a view first; keys are copied to the rows of the queries.
      if (d.fault == Fault::kSharedKeys) continue;
      CHECK(found == (d.fault == Fault::kColumnsMixed ? 1 : 0));
    }
  }
}

// ---- positions that count

namespace {

constexpr int64_t kHistory = 36, kPositions = kHistory + 1, kBlock = 32;

enum class End { kProduct, kReduce, kSum, kOtherMask, kTurnedMask, kHead };

/// A transformer block over a history and its target, pooled over the positions that count.
struct Block {
  End end = End::kProduct;
  std::string mode = "replace", unary = "relu";
  bool target = true;  // a position that counts in every row
  bool inverted = true, gated = false;
  double eps = 1e-5;
  bool streamed = false, causal = false, biased = false;  // the format's op; a bias is made of positions
  std::string empty = "zeros";

  ModelBuilder model() const {
    ModelBuilder b("block");
    const std::string history = b.sequence("history", 7, kHistory), other = b.sequence("other", 7, kHistory);
    const std::string item = b.embed(b.categorical("item", 7), 7, kBlock);
    const auto counts = [&](const std::string& of) {
      const std::string mask = b.op("Mask", {of}, {{"rule", "length"}});
      const std::string last =
          target
              ? b.constant_of({1}, {1})
              : b.op("View", {mask},
                     {{"kind", "slice"}, {"axis", int64_t{0}}, {"begin", int64_t{0}}, {"end", int64_t{1}}});
      return b.concat({mask, last}, 0);
    };
    const std::string mask = counts(history);
    std::string x =
        b.concat({b.embed(history, 7, kBlock, {{"pooling", "none"}}), b.reshape(item, {1, kBlock})}, 0);
    x = b.binary("add", x, b.constant({kPositions, kBlock}, 0.3));
    x = norm(b, b.binary("add", x, b.linear(attention(b, x, softmax_mask(b, mask)), kBlock, kBlock)));
    const std::string inner = b.linear(x, kBlock, 2 * kBlock);
    std::string hidden = b.unary(unary, inner);
    if (gated) hidden = b.binary("mul", hidden, b.unary("sigmoid", inner));
    x = norm(b, b.binary("add", x, b.linear(hidden, 2 * kBlock, kBlock)));
    const std::string logit =
        b.linear(pooled(b, x, end == End::kOtherMask ? counts(other) : mask), kBlock, 1);
    b.head("ctr", b.unary("sigmoid", logit), logit);
    if (end == End::kHead) b.head("last", b.reduce("sum", b.reshape(x, {kPositions * kBlock}), 0, true));
    return b;
  }

 private:
  std::string norm(ModelBuilder& b, const std::string& x) const {
    return b.op("LayerNorm", {x}, {{"eps", eps}},
                {{"gamma", b.param({kBlock}, 1)}, {"beta", b.param({kBlock}, 0.1)}});
  }
  std::string softmax_mask(ModelBuilder& b, const std::string& mask) const {
    if (!inverted) return mask;
    const ModelBuilder::Attrs turn{{"a", -1.0}, {"b", 1.0}};
    return b.unary("affine", b.unary("affine", mask, turn), turn);
  }
  std::string attention(ModelBuilder& b, const std::string& x, const std::string& mask) const {
    const std::string all = b.linear(x, kBlock, 3 * kBlock);
    if (streamed) return stream(b, x, all, mask);
    const auto part = [&](int64_t k, const Ints& perm) {
      const std::string cut =
          b.op("View", {all},
               {{"kind", "slice"}, {"axis", int64_t{1}}, {"begin", k * kBlock}, {"end", (k + 1) * kBlock}});
      return b.op("View", {b.reshape(cut, {kPositions, 2, kBlock / 2})},
                  {{"kind", "transpose"}, {"perm", perm}});
    };
    const std::string scores = b.op("MatMul", {part(0, {1, 0, 2}), part(1, {1, 2, 0})}, {{"alpha", 0.25}});
    const std::string weights = b.op("Softmax", {scores, mask}, {{"mask_mode", mode}, {"value", -1e9}});
    const std::string y = b.op("MatMul", {weights, part(2, {1, 0, 2})}, {});
    return b.reshape(b.op("View", {y}, {{"kind", "transpose"}, {"perm", Ints{1, 0, 2}}}),
                     {kPositions, kBlock});
  }
  std::string stream(ModelBuilder& b, const std::string& x, const std::string& all,
                     const std::string& mask) const {
    std::vector<std::string> in;
    for (const int64_t k : {0, 1, 2}) {
      in.push_back(
          b.op("View", {all},
               {{"kind", "slice"}, {"axis", int64_t{1}}, {"begin", k * kBlock}, {"end", (k + 1) * kBlock}}));
    }
    in.push_back(mask);
    ModelBuilder::Attrs attrs{{"heads", int64_t{2}}, {"scale", 0.25}, {"mask", "keys"}, {"empty", empty}};
    if (causal) attrs["causal"] = true;
    if (biased) {
      attrs["bias"] = "pairs";
      in.push_back(b.linear(x, kBlock, kPositions));
    }
    return b.op("Attention", in, attrs);
  }
  std::string pooled(ModelBuilder& b, const std::string& x, const std::string& mask) const {
    if (end == End::kSum) return b.reduce("sum", x, 0, false);
    if (end == End::kTurnedMask) {
      const std::string others = b.unary("affine", mask, {{"a", -1.0}, {"b", 1.0}});
      return b.reduce("sum", b.binary("mul", x, b.reshape(others, {kPositions, 1})), 0, false);
    }
    if (end == End::kReduce) return b.op("Reduce", {x, mask}, {{"kind", "mean"}, {"axis", int64_t{0}}});
    return b.reduce("sum", b.binary("mul", x, b.reshape(mask, {kPositions, 1})), 0, false);
  }
};

/// Ops whose last operand, the one behind `operands` others, says which positions count.
int64_t of_positions(const Plan& p, OpKind kind, size_t operands) {
  return std::count_if(p.ops.begin(), p.ops.end(), [&](const PlanOp& op) {
    return op.kind == kind && op.inputs.size() > operands && op.inputs[operands] >= 0;
  });
}

int64_t layers_of_positions(const Plan& p) { return of_positions(p, OpKind::kLinear, 3); }

bool asks_by_position(const Plan& p) {
  return std::any_of(p.ops.begin(), p.ops.end(), [](const PlanOp& op) {
    return op.kind == OpKind::kAttention && std::get<kernels::AttentionAttrs>(op.attrs).counted != 0;
  });
}

}  // namespace

TEST_CASE("positions: a block's layers and its attention leave out what its mask does") {
  for (const End end : {End::kProduct, End::kReduce}) {
    for (const bool inverted : {false, true}) {
      for (const auto& [mode, target] :
           {std::pair{"replace", true}, {"add", true}, {"ninf", true}, {"ninf", false}}) {
        Block block;
        block.end = end;
        block.inverted = inverted;
        block.mode = mode;
        block.target = target;
        ModelBuilder b = block.model();
        const Plan p = same_scores(b, 11);
        CAPTURE(dump_plan(p));
        CHECK(layers_of_positions(p) == 4);
        CHECK(of_positions(p, OpKind::kLayerNorm, 1) == 2);
        CHECK(of_positions(p, OpKind::kUnary, 1) == 1);
        CHECK(of_positions(p, OpKind::kBinary, 2) == 3);
        CHECK(asks_by_position(p));
      }
    }
  }
}

TEST_CASE("positions: the format's attention leaves out what its mask does") {
  for (const bool causal : {false, true}) {
    for (const char* empty : {"zeros", "mean"}) {
      Block block;
      block.streamed = true;
      block.causal = causal;
      block.empty = empty;
      ModelBuilder b = block.model();
      const Plan p = same_scores(b, 14);
      CAPTURE(dump_plan(p));
      CHECK(count_of(p, OpKind::kAttention) == 1);
      // A causal query may be left with no key, and takes the mean of all positions then.
      const bool skips = !causal || std::string(empty) == "zeros";
      CHECK(layers_of_positions(p) == (skips ? 4 : 3));
      CHECK(asks_by_position(p) == skips);
    }
  }
}

TEST_CASE("positions: a bias that is made of positions reads them all") {
  Block block;
  block.streamed = block.biased = true;
  block.end = End::kSum;
  ModelBuilder b = block.model();
  const Plan p = same_scores(b, 15);
  CAPTURE(dump_plan(p));
  for (const PlanOp& op : p.ops) {
    const bool reads_all =
        op.kind == OpKind::kLinear && p.values[static_cast<size_t>(op.outputs[0])].dims.at(-1) == kPositions;
    if (reads_all) CHECK((op.inputs.size() < 4 || op.inputs[3] < 0));
  }
}

TEST_CASE("positions: neighbours that become one op compute all of them") {
  Block block;
  block.gated = true;
  ModelBuilder b = block.model();
  const Plan p = same_scores(b, 13);
  CAPTURE(dump_plan(p));
  CHECK(of_positions(p, OpKind::kUnary, 1) == 0);
  CHECK(of_positions(p, OpKind::kBinary, 2) == 3);
  CHECK(count_of(p, OpKind::kElementwise) == 2);  // the gate; the mask's affine maps
  CHECK(layers_of_positions(p) == 4);
}

TEST_CASE("positions: what reads a padded position has all of them computed") {
  std::vector<Block> blocks(7);
  blocks[0].end = End::kSum;
  blocks[1].end = End::kOtherMask;
  blocks[2].end = End::kHead;
  blocks[3].target = false;  // a row without a position that counts: the softmax is over all
  blocks[4].eps = 0;
  blocks[5].unary = "exp";
  blocks[6].end = End::kTurnedMask;  // all of its positions are of the Mask op
  blocks[6].target = false;
  blocks[6].mode = "ninf";
  for (size_t k = 0; k < blocks.size(); ++k) {
    CAPTURE(k);
    ModelBuilder b = blocks[k].model();
    const Plan p = same_scores(b, 12);
    CAPTURE(dump_plan(p));
    CHECK(layers_of_positions(p) < 4);
    CHECK(count_of(p, OpKind::kAttention) == 1);
  }
}

}  // namespace dpi::test::attention_test
