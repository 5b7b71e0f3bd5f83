// Sequences [history of the user, candidates of the row]: what is computed once per user, and what must not
// be. The scores are those of the primitives either way.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "plan/checked_plan.hpp"
#include "support/interpreter.hpp"

namespace dpi::test::history_test {
namespace {

constexpr int64_t kWidth = 8;

/// The rule that keeps the history from reading candidates.
enum class Reach { kCausal, kCandidates, kPairs, kCount };
enum class End { kCandidates, kAll, kCount };
enum class Bias { kNone, kRelative, kPairs, kCount };

/// A way for the history to read a candidate, or to leave that open.
enum class Fault {
  kNone,
  kOpen,             // no mask of places
  kOnePair,          // one query of the history reads a candidate
  kFewerCandidates,  // the first one counts as history
  kMeanOfNone,       // a query without a key takes the mean of all values
  kBiasOfItem,
  kHistoryOfItem,  // each row has a history of its own
  kCount
};

struct Drawn {
  int64_t history = 5, candidates = 1, heads = 2, layers = 2;
  Reach reach = Reach::kCausal;
  End end = End::kCandidates;
  Bias bias = Bias::kNone;
  bool grouped = false;  // history and candidates have a LayerNorm each
  bool silu = false, padded = true, primitives = false,
       target = false;  // target: the last layer asks for candidates alone
  Fault fault = Fault::kNone;

  int64_t total() const { return history + candidates; }
};

std::string text_of(const Drawn& d) {
  std::ostringstream s;
  s << d.history << " + " << d.candidates << " positions, " << d.heads << " heads, " << d.layers
    << " layers, reach " << static_cast<int>(d.reach) << " end " << static_cast<int>(d.end) << " bias "
    << static_cast<int>(d.bias) << " grouped " << d.grouped << " silu " << d.silu << " padded " << d.padded
    << " primitives " << d.primitives << " target " << d.target << " fault " << static_cast<int>(d.fault);
  return s.str();
}

class Writer {
 public:
  explicit Writer(Drawn d) : d_(std::move(d)), b_("history") {}

  ModelBuilder model() {
    const RowSpace space = d_.fault == Fault::kHistoryOfItem ? RowSpace::kItem : RowSpace::kShared;
    const std::string history = b_.sequence("history", 7, d_.history, space);
    std::vector<std::string> pieces = {b_.embed(history, 7, kWidth, {{"pooling", "none"}})};
    for (int64_t c = 0; c < d_.candidates; ++c) {
      const std::string name = "item" + std::to_string(c);
      pieces.push_back(b_.reshape(b_.embed(b_.categorical(name, 7), 7, kWidth), {1, kWidth}));
    }
    std::string x = b_.concat(pieces, 0);
    x = b_.binary("add", x, b_.constant({d_.total(), kWidth}, 0.3));
    const std::string ones =
        b_.constant_of({d_.candidates}, std::vector<float>(static_cast<size_t>(d_.candidates), 1));
    mask_ = b_.concat({b_.op("Mask", {history}, {{"rule", "length"}}), ones}, 0);
    for (int64_t l = 0; l < d_.layers; ++l) x = layer(x, d_.target && l + 1 == d_.layers);
    const int64_t left = d_.target ? d_.candidates : d_.total();
    std::string logit;
    if (d_.end == End::kAll && !d_.target) {
      logit = b_.linear(b_.op("Reduce", {x, mask_}, {{"kind", "mean"}, {"axis", int64_t{0}}}), kWidth, 1);
    } else {
      const std::string last = d_.target ? x : slice(x, 0, left - d_.candidates, left);
      const int64_t n = d_.candidates * kWidth;
      logit = b_.linear(b_.reshape(last, {n}), n, 1);
    }
    b_.head("ctr", b_.unary("sigmoid", logit), logit);
    return std::move(b_);
  }

 private:
  std::string slice(const std::string& x, int64_t axis, int64_t begin, int64_t end) {
    return b_.op("View", {x}, {{"kind", "slice"}, {"axis", axis}, {"begin", begin}, {"end", end}});
  }
  std::string norm(const std::string& x) {
    return b_.op("LayerNorm", {x}, {{"eps", 1e-5}},
                 {{"gamma", b_.param({kWidth}, 1)}, {"beta", b_.param({kWidth}, 0.1)}});
  }
  /// [total, total], causal.
  std::string triangle() {
    std::vector<float> m;
    for (int64_t i = 0; i < d_.total() * d_.total(); ++i)
      m.push_back(i % d_.total() <= i / d_.total() ? 1.0f : 0.0f);
    if (d_.fault == Fault::kOnePair)
      m[static_cast<size_t>(d_.history - 1)] = m[static_cast<size_t>(d_.history)] = 1;
    return b_.constant_of({d_.total(), d_.total()}, m);
  }
  std::string pairs() {
    return d_.padded ? b_.binary("mul", triangle(), b_.reshape(mask_, {1, d_.total()})) : triangle();
  }

  std::string layer(const std::string& x, bool target) {
    const std::string normed =
        d_.grouped
            ? b_.concat({norm(slice(x, 0, 0, d_.history)), norm(slice(x, 0, d_.history, d_.total()))}, 0)
            : norm(x);
    const std::string all = b_.unary("silu", b_.linear(normed, kWidth, 4 * kWidth));
    const auto part = [&](int64_t k) { return slice(all, 1, k * kWidth, (k + 1) * kWidth); };
    std::string q = part(1), gate = part(0), from = x;
    if (target) {
      q = slice(q, 0, d_.history, d_.total());
      gate = slice(gate, 0, d_.history, d_.total());
      from = slice(x, 0, d_.history, d_.total());
    }
    const std::string y =
        d_.primitives ? primitives(q, part(2), part(3)) : attention(x, q, part(2), part(3), target);
    const std::string mixed = b_.linear(b_.binary("mul", gate, norm(y)), kWidth, kWidth);
    return b_.binary("add", from, mixed);
  }
  std::string primitives(const std::string& q, const std::string& k, const std::string& v) {
    const std::string scores = b_.op("MatMul", {q, k}, {{"trans_b", true}, {"alpha", 0.4}});
    const std::string weights =
        b_.op("Softmax", {scores, pairs()}, {{"mask_mode", d_.padded ? "ninf" : "replace"}, {"value", -1e9}});
    return b_.op("MatMul", {weights, v}, {});
  }
  std::string attention(const std::string& x, const std::string& q, const std::string& k,
                        const std::string& v, bool target) {
    ModelBuilder::Attrs attrs{{"heads", d_.heads}, {"scale", 0.4}};
    std::vector<std::string> in = {q, k, v};
    if (d_.silu) {
      attrs["form"] = "silu";
      attrs["divisor"] = 3.0;
    } else if (d_.fault == Fault::kMeanOfNone) {
      attrs["empty"] = "mean";
    }
    const bool by_place = d_.fault != Fault::kOpen && !target;
    const bool of_pairs = d_.reach == Reach::kPairs || d_.fault == Fault::kOnePair;
    if (by_place && !of_pairs && d_.reach == Reach::kCausal) attrs["causal"] = true;
    if (by_place && !of_pairs && d_.reach == Reach::kCandidates)
      attrs["candidates"] = d_.candidates - (d_.fault == Fault::kFewerCandidates ? 1 : 0);
    if (by_place && of_pairs) {
      attrs["mask"] = "pairs";
      in.push_back(pairs());
    } else if (d_.padded) {
      attrs["mask"] = "keys";
      in.push_back(mask_);
    }
    if (target) return b_.op("Attention", in, attrs);
    if (d_.fault == Fault::kBiasOfItem) {
      attrs["bias"] = "pairs";
      in.push_back(b_.linear(x, kWidth, d_.total()));
    } else if (d_.bias != Bias::kNone) {
      attrs["bias"] = d_.bias == Bias::kRelative ? "relative" : "pairs";
      in.push_back(d_.bias == Bias::kRelative ? b_.constant({d_.heads, 2 * d_.total() - 1}, 0.5)
                                              : b_.constant({d_.total(), d_.total()}, 0.5));
    }
    return b_.op("Attention", in, attrs);
  }

  Drawn d_;
  ModelBuilder b_;
  std::string mask_;
};

template <class E>
E one_of(std::mt19937& random) {
  return static_cast<E>(random() % static_cast<uint32_t>(E::kCount));
}

Drawn drawn(std::mt19937& random) {
  Drawn d;
  d.history = 4 + static_cast<int64_t>(random() % 6);
  d.candidates = 1 + static_cast<int64_t>(random() % 2);
  d.heads = random() % 2 == 0 ? 1 : 2;
  d.layers = 1 + static_cast<int64_t>(random() % 3);
  d.reach = one_of<Reach>(random);
  d.end = one_of<End>(random);
  d.bias = one_of<Bias>(random);
  d.silu = random() % 2 == 0;
  d.padded = random() % 3 != 0;
  d.primitives = random() % 4 == 0;
  d.target = random() % 4 == 0;
  d.grouped = random() % 4 == 0;
  if (d.primitives) {
    d.target = d.silu = false;
    d.bias = Bias::kNone;
    d.heads = 1;
  }
  return d;
}

struct Counts {
  int64_t once = 0, behind = 0,
          others = 0;  // attentions of the history, of what stands behind it, of all positions
};

Counts counts_of(const Plan& p) {
  Counts c;
  for (const PlanOp& op : p.ops) {
    if (op.kind != OpKind::kAttention) continue;
    const bool shared = p.values[static_cast<size_t>(op.outputs[0])].space == RowSpace::kShared;
    const bool behind = std::get<kernels::AttentionAttrs>(op.attrs).prefix > 0;
    ++(shared ? c.once : behind ? c.behind : c.others);
  }
  return c;
}

/// The plan, whose scores are those of the primitives, and of the plan without what is done once per user.
Plan same_scores(ModelBuilder& b, uint32_t seed) {
  PlanOptions plain, per_row;
  plain.fold = plain.fuse = false;
  per_row.skip = kSkipHoist;
  const Plan written = checked_plan(b, plain);
  const TestBatch batch = random_batch(written.features, 9, 3, seed);
  const Scores want = interpret(written, batch, b.tables());
  Plan made = checked_plan(b), other = checked_plan(b, per_row);
  for (Plan* p : {&made, &other}) {
    CAPTURE(dump_plan(*p));
    const Scores got = interpret(*p, batch, b.tables());
    for (size_t i = 0; i < want.logit.size(); ++i) {
      const double e = want.logit[i], g = got.logit[i];
      REQUIRE(std::isfinite(e));
      CHECK(std::fabs(g - e) <= 3e-6 * std::max(1.0, std::fabs(e)));
    }
  }
  CHECK(counts_of(other).once + counts_of(other).behind == 0);
  return made;
}

}  // namespace

TEST_CASE("history: its positions are computed once per user, in any form") {
  std::mt19937 random(1);
  for (uint32_t k = 0; k < 200; ++k) {
    const Drawn d = drawn(random);
    CAPTURE(text_of(d));
    ModelBuilder b = Writer(d).model();
    const Plan p = same_scores(b, k);
    CAPTURE(dump_plan(p));
    const Counts c = counts_of(p);
    const bool all = d.end == End::kAll && !d.target;
    CHECK(c.behind == d.layers);
    CHECK(c.once == d.layers - (all ? 0 : 1));  // of the last layer only keys and values
    CHECK(c.others == 0);
  }
}

TEST_CASE("history: a mask that lets it read a candidate, or leaves that open, has it computed per row") {
  std::mt19937 random(2);
  for (int fault = 1; fault < static_cast<int>(Fault::kCount); ++fault) {
    for (uint32_t k = 0; k < 20; ++k) {
      Drawn d = drawn(random);
      d.fault = static_cast<Fault>(fault);
      d.primitives = d.target = false;
      if (d.fault == Fault::kFewerCandidates) {
        d.candidates = 2;
        d.reach = Reach::kCandidates;
      }
      if (d.fault == Fault::kMeanOfNone) {
        d.silu = false;
        d.padded = true;
      }
      CAPTURE(text_of(d));
      ModelBuilder b = Writer(d).model();
      const Plan p = same_scores(b, k);
      CAPTURE(dump_plan(p));
      CHECK(counts_of(p).once + counts_of(p).behind == 0);
      CHECK(counts_of(p).others == d.layers);
    }
  }
}

}  // namespace dpi::test::history_test
