// Builds small models in C++ for tests and benches: a Manifest op by op, with random parameters and tables
// held in memory, and the Graph of it. No files.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.hpp"

namespace dpi::test {

class ModelBuilder : public ParamSource {
 public:
  using Attrs = AttrMap;
  using Params = std::map<std::string, std::string>;

  explicit ModelBuilder(std::string name, uint32_t seed = 1) : random_(seed) {
    manifest_.name = std::move(name);
    manifest_.version_minor = 2;  // every op
  }

  const Manifest& manifest() const { return manifest_; }
  /// Row-major f32 rows of table k of the manifest.
  const std::vector<std::vector<float>>& tables() const { return tables_; }

  Graph graph() {
    Result<Graph> g = build_graph(manifest_, *this);
    if (!g.ok()) throw std::runtime_error(g.status().message());
    return std::move(g).value();
  }

  Result<std::vector<int64_t>> shape(const std::string& name) override {
    const auto it = params_.find(name);
    if (it == params_.end()) return bad_model("/params/" + name + " does not exist");
    return it->second.first;
  }
  Result<std::vector<float>> read(const std::string& name) override {
    const auto it = params_.find(name);
    if (it == params_.end()) return bad_model("/params/" + name + " does not exist");
    return it->second.second;
  }

  // ---- features: each returns the name of its Input op

  std::string categorical(const std::string& name, int64_t vocab, RowSpace space = RowSpace::kItem) {
    FeatureSpec f;
    f.name = name;
    f.kind = FeatureKind::kCategorical;
    f.vocab_size = vocab;
    f.space = space;
    return input(std::move(f));
  }
  std::string sequence(const std::string& name, int64_t vocab, int64_t max_len,
                       RowSpace space = RowSpace::kItem) {
    FeatureSpec f;
    f.name = name;
    f.kind = FeatureKind::kSequence;
    f.vocab_size = vocab;
    f.max_len = max_len;
    f.missing = Missing::kPad;
    f.space = space;
    return input(std::move(f));
  }
  std::string numeric(const std::string& name, RowSpace space = RowSpace::kItem) {
    FeatureSpec f;
    f.name = name;
    f.space = space;
    return input(std::move(f));
  }
  std::string dense(const std::string& name, int64_t dim) {
    FeatureSpec f;
    f.name = name;
    f.kind = FeatureKind::kDense;
    f.dim = dim;
    return input(std::move(f));
  }

  // ---- ops: each returns the name of its value

  /// A table of noise; its name. Rows in `cancelling` have a sum of 0: two elements and zeros.
  std::string table(int64_t rows, int64_t dim, const std::vector<int64_t>& cancelling = {}) {
    std::string name = fresh("table");
    TableSpec spec;
    spec.name = name;
    spec.rows = rows;
    spec.dim = dim;
    manifest_.tables.push_back(std::move(spec));
    tables_.push_back(noise(rows * dim, 0.3));
    for (const int64_t row : cancelling) {
      float* const at = tables_.back().data() + row * dim;
      std::fill(at + 2, at + dim, 0.0f);
      at[1] = -at[0];
    }
    return name;
  }
  /// One column of a table that has been made is `v` in every row.
  void fill_column(int64_t column, int64_t dim, float v) {
    for (size_t at = static_cast<size_t>(column); at < tables_.back().size(); at += static_cast<size_t>(dim))
      tables_.back()[at] = v;
  }
  std::string embed(const std::string& input, int64_t rows, int64_t dim, Attrs attrs = {}) {
    return embed_in(input, table(rows, dim), std::move(attrs));
  }
  std::string embed_in(const std::string& input, const std::string& table, Attrs attrs = {}) {
    attrs["table"] = table;
    return op("Embed", {input}, std::move(attrs));
  }
  std::string linear(const std::string& x, int64_t in, int64_t out, bool bias = true) {
    Params p{{"weight", param({out, in}, 1.0 / std::max(1.0, std::sqrt(static_cast<double>(in))))}};
    if (bias) p["bias"] = param({out}, 0.1);
    return op("Linear", {x}, {}, std::move(p));
  }
  std::string unary(const std::string& kind, const std::string& x, Attrs attrs = {}) {
    attrs["kind"] = kind;
    return op("Unary", {x}, std::move(attrs));
  }
  /// y = scale x + shift per channel, as BatchNorm is exported.
  std::string affine(const std::string& x, int64_t n, double shift = 0.2) {
    return op("Unary", {x}, {{"kind", "affine"}}, {{"scale", param({n}, 0.5)}, {"shift", param({n}, shift)}});
  }
  std::string binary(const std::string& kind, const std::string& x, const std::string& y) {
    return op("Binary", {x, y}, {{"kind", kind}});
  }
  std::string where(const std::string& cond, const std::string& x, const std::string& y) {
    return op("Where", {cond, x, y}, {});
  }
  std::string reduce(const std::string& kind, const std::string& x, int axis, bool keepdim) {
    return op("Reduce", {x}, {{"kind", kind}, {"axis", int64_t{axis}}, {"keepdim", keepdim}});
  }
  std::string concat(const std::vector<std::string>& parts, int axis = -1) {
    return parts.size() == 1 ? parts[0] : op("Concat", parts, {{"axis", int64_t{axis}}});
  }
  std::string reshape(const std::string& x, const std::vector<int64_t>& dims) {
    return op("View", {x}, {{"kind", "reshape"}, {"dims", dims}});
  }
  std::string constant(const std::vector<int64_t>& dims, double scale = 0.1) {
    return op("Const", {}, {}, {{"value", param(dims, scale)}});
  }
  std::string constant_of(const std::vector<int64_t>& dims, std::vector<float> values) {
    return op("Const", {}, {}, {{"value", param_of(dims, std::move(values))}});
  }
  std::string op(const std::string& kind, std::vector<std::string> inputs, Attrs attrs, Params params = {}) {
    OpSpec o;
    o.name = fresh(kind);
    o.op = kind;
    o.inputs = std::move(inputs);
    o.attrs = std::move(attrs);
    o.params = std::move(params);
    manifest_.ops.push_back(std::move(o));
    return manifest_.ops.back().name;
  }
  void head(const std::string& name, const std::string& value, const std::string& logit = "") {
    manifest_.heads.push_back({name, value, logit, "sigmoid"});
  }
  /// Names a new parameter of normal noise.
  std::string param(std::vector<int64_t> dims, double scale) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    std::string name = "p" + std::to_string(params_.size());
    params_[name] = {std::move(dims), noise(n, scale)};
    return name;
  }
  std::string param_of(const std::vector<int64_t>& dims, std::vector<float> values) {
    std::string name = param(dims, 0);
    params_[name].second = std::move(values);
    return name;
  }

 private:
  std::string input(FeatureSpec f) {
    OpSpec o;
    o.name = "in/" + f.name;
    o.op = "Input";
    o.feature = f.name;
    o.attrs = {{"feature", f.name}};
    manifest_.features.push_back(std::move(f));
    manifest_.ops.push_back(std::move(o));
    return manifest_.ops.back().name;
  }
  std::string fresh(const std::string& kind) { return kind + std::to_string(next_++); }
  std::vector<float> noise(int64_t n, double scale) {
    std::normal_distribution<double> d(0.0, scale);
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = static_cast<float>(d(random_));
    return v;
  }

  std::mt19937 random_;
  int next_ = 0;
  Manifest manifest_;
  std::vector<std::vector<float>> tables_;
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> params_;
};

}  // namespace dpi::test
