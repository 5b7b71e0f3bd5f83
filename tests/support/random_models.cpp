#include "support/random_models.hpp"

#include "support/paper_models.hpp"

namespace dpi::test {
namespace {

using Attrs = ModelBuilder::Attrs;

struct Value {
  std::string name;
  int64_t n = 0;  // rank 1
};

class Generator {
 public:
  explicit Generator(uint32_t seed)
      : random_(seed * 2654435761u + 1), b_("random" + std::to_string(seed), seed) {}

  ModelBuilder run() {
    features();
    const int steps = 3 + pick(18);
    for (int i = 0; i < steps; ++i) step();
    const int heads = 1 + (pick(4) == 0);
    for (int h = 0; h < heads; ++h) head(h);
    return std::move(b_);
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }
  const Value& any() { return values_[static_cast<size_t>(pick(static_cast<int>(values_.size())))]; }
  void add(std::string name, int64_t n) { values_.push_back({std::move(name), n}); }

  void features() {
    dim_ = 3 + pick(3);
    const bool shared = pick(4) == 0;
    const int n = 2 + pick(4);
    for (int i = 0; i < n; ++i) {
      const std::string x = b_.categorical("c" + std::to_string(i), 11,
                                           shared && pick(2) ? RowSpace::kShared : RowSpace::kItem);
      slots_.push_back(x);
      embeddings_.push_back(b_.embed(x, 11, dim_));
      add(embeddings_.back(), dim_);
      if (pick(2)) {
        linear_parts_.push_back(b_.embed(x, 11, 1));
        add(linear_parts_.back(), 1);
      }
    }
    for (int i = pick(3); i > 0; --i) {
      const std::string x =
          b_.numeric("n" + std::to_string(i), shared && pick(3) == 0 ? RowSpace::kShared : RowSpace::kItem);
      add(x, 1);
      for (int k = 1 + (pick(3) == 0); k > 0; --k) {
        embeddings_.push_back(b_.linear(x, 1, dim_, pick(4) == 0));
        add(embeddings_.back(), dim_);
      }
      if (pick(2)) linear_parts_.push_back(b_.linear(x, 1, 1, false));
    }
    if (pick(3) == 0) add(b_.dense("d", 4), 4);
    if (pick(2)) sequence();
  }

  /// Attributes of one pooled Embed; every one of them may differ between two embeddings of one feature.
  Attrs pooling_attrs() {
    const char* pooling[] = {"sum", "mean", "max"};
    const char* masks[] = {"length", "id", "none", "nonzero"};
    const int kind = pick(3);
    Attrs attrs = {{"pooling", pooling[kind]}, {"mask", masks[pick(kind == 2 ? 3 : 4)]}};
    if (kind == 1) attrs["eps"] = pick(2) * 0.5;
    if (kind == 2) attrs["empty"] = pick(3) - 1.0;
    return attrs;
  }

  void sequence() {
    const std::string x = b_.sequence("s", 11, 4);
    embeddings_.push_back(b_.embed(x, 11, dim_, pooling_attrs()));
    add(embeddings_.back(), dim_);
    const std::string table = b_.table(11, dim_);
    for (int i = pick(4); i > 0; --i) {  // one table read under several rules
      const std::string e = b_.embed_in(x, table, pooling_attrs());
      if (pick(2)) embeddings_.push_back(e);
      add(e, dim_);
    }
    if (pick(2)) linear_parts_.push_back(b_.embed(x, 11, 1, pooling_attrs()));
    if (pick(2)) return;
    const std::string e = b_.embed(x, 11, dim_, {{"pooling", "none"}});
    const std::string m = b_.op("Mask", {x}, {{"rule", "length"}});
    add(b_.op("Reduce", {e, m}, {{"kind", "mean"}, {"axis", 0}}), dim_);
  }

  void step() {
    switch (pick(13)) {
      case 0:
        layer();
        break;
      case 1:
        layer();
        break;
      case 2: {
        const Value v = any();
        const char* kinds[] = {"relu", "sigmoid", "tanh", "identity", "silu"};
        add(b_.unary(kinds[pick(5)], v.name), v.n);
        break;
      }
      case 3: {
        const Value v = any();
        add(pick(2) ? b_.affine(v.name, v.n) : b_.unary("affine", v.name, {{"a", 0.7}, {"b", 0.1}}), v.n);
        break;
      }
      case 4:
        combine();
        break;
      case 5:
        combine();
        break;
      case 6:
        join();
        break;
      case 7:
        join();
        break;
      case 8: {
        const Value v = any();
        add(b_.reduce(pick(2) ? "sum" : "mean", v.name, 0, true), 1);
        break;
      }
      case 9:
        slice();
        break;
      case 10:
        interactions();
        break;
      case 11:
        cross();
        break;
      default:
        logistic();
        break;
    }
  }

  void layer() {
    const Value v = any();
    const int64_t out = 1 + pick(9);
    std::string y = b_.linear(v.name, v.n, out, pick(3) > 0);
    if (pick(3) == 0) y = b_.affine(y, out);
    if (pick(3) > 0) y = b_.unary("relu", y);
    add(y, out);
  }
  void combine() {
    const Value x = any();
    std::vector<Value> fitting;
    for (const Value& v : values_) {
      if (v.n == x.n || v.n == 1) fitting.push_back(v);
    }
    const Value y = fitting[static_cast<size_t>(pick(static_cast<int>(fitting.size())))];
    const char* kinds[] = {"add", "add", "mul", "sub", "max"};
    const char* kind = kinds[pick(5)];
    add(pick(2) ? b_.binary(kind, x.name, y.name) : b_.binary(kind, y.name, x.name), x.n);
  }
  void join() {
    std::vector<std::string> parts;
    int64_t n = 0;
    for (int i = 2 + pick(4); i > 0; --i) {
      const Value v = any();
      parts.push_back(v.name);
      n += v.n;
    }
    if (pick(6) == 0) {
      parts.push_back(b_.unary("tanh", b_.binary("add", b_.constant({3}), b_.constant({1}))));
      n += 3;
    }
    if (n < 60) add(b_.concat(parts), n);
  }
  void slice() {
    const Value v = any();
    if (v.n < 2) return;
    const int64_t begin = pick(static_cast<int>(v.n) - 1);
    add(b_.op("View", {v.name}, {{"kind", "slice"}, {"axis", 0}, {"begin", begin}, {"end", v.n}}),
        v.n - begin);
  }
  /// FM over some of the vectors: a model may hold several, over other vectors.
  void interactions() {
    std::vector<std::string> vectors;
    for (const std::string& e : embeddings_) {
      if (pick(4) > 0) vectors.push_back(e);
    }
    if (vectors.size() < 2) vectors = embeddings_;
    const std::string x = b_.concat(vectors);
    const auto fields = static_cast<int64_t>(vectors.size());
    add(x, fields * dim_);
    interactions_.push_back(paper::fm(b_, x, fields, dim_));
    add(interactions_.back(), 1);
  }
  void cross() {
    const Value v = any();
    if (v.n < 2) return;
    const int layers = 1 + pick(3);
    add(pick(2) ? paper::cross_v1(b_, v.name, v.n, layers) : paper::cross_v2(b_, v.name, v.n, layers), v.n);
  }
  void logistic() {
    if (linear_parts_.empty()) return;
    if (pick(2)) {
      add(b_.reduce("sum", b_.concat(linear_parts_), 0, true), 1);
      return;
    }
    std::string sum = linear_parts_[0];
    for (size_t i = 1; i < linear_parts_.size(); ++i) sum = b_.binary("add", sum, linear_parts_[i]);
    add(b_.unary("identity", sum), 1);
  }

  void head(int h) {
    std::vector<std::string> parts;
    int64_t n = 0;
    for (int i = 1 + pick(5); i > 0; --i) {
      const Value& v = i == 1 ? values_.back() : any();
      parts.push_back(v.name);
      n += v.n;
    }
    std::string logit = b_.linear(b_.concat(parts), n, 1, pick(2) > 0);
    for (int i = pick(3); i > 0; --i) {
      const Value& v = any();
      if (v.n == 1) logit = b_.binary("add", logit, v.name);
    }
    for (const std::string& v : interactions_) {
      if (pick(2)) logit = b_.binary("add", logit, v);
    }
    const bool scaled = pick(5) == 0;
    const std::string value =
        pick(5) == 0
            ? b_.unary("identity", logit)
            : b_.unary("sigmoid", scaled ? b_.unary("affine", logit, {{"a", 0.5}, {"b", 0.1}}) : logit);
    b_.head("h" + std::to_string(h), value, pick(2) ? logit : pick(4) == 0 ? value : "");
    add(value, 1);
  }

  std::mt19937 random_;
  ModelBuilder b_;
  int64_t dim_ = 4;
  std::vector<Value> values_;
  std::vector<std::string> slots_, embeddings_, linear_parts_, interactions_;
};

}  // namespace

ModelBuilder random_model(uint32_t seed) { return Generator(seed).run(); }

}  // namespace dpi::test
