// Access for the shape rule of an op (infer_<op> in <op>.cpp) while a graph is built: its attributes, inputs
// and parameters, checked, with errors that name the op.
//
// Codes: what a newer format may have introduced (a key, a role, a choice) is kUnsupported; what no format
// allows is kBadModel.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "bundle/manifest.hpp"
#include "ops/dims.hpp"
#include "ops/ops.hpp"

namespace dpi::ops {

template <class E>
using Choices = std::span<const std::pair<std::string_view, E>>;

/// One input of an op.
struct OpInput {
  std::string name;
  bool is_bags = false;  // ids of `feature`; dims unused
  Dims dims;
  const FeatureSpec* feature = nullptr;
};

/// Answers a rule's questions about the model around its op; implemented by graph/build.cpp.
class OpScope {
 public:
  virtual ~OpScope() = default;
  /// Null when there is none of this name; else its number goes to *index.
  virtual const FeatureSpec* feature(const std::string& name, int32_t* index) const = 0;
  virtual const TableSpec* table(const std::string& name, int32_t* index) const = 0;
  virtual Result<std::vector<int64_t>> param_shape(const std::string& name) const = 0;
  /// The number of the parameter in the graph, added when it is new.
  virtual int32_t add_param(const std::string& name, const Dims& dims) = 0;
};

/// A rule's result for an op, apart from the dims of its value.
struct ReadOp {
  OpAttrs attrs;
  std::vector<int32_t> params;  // index into Graph::params, -1 = absent; in the order of OpForm::params
  int32_t feature = -1;         // Input
  int32_t table = -1;           // Embed
  std::vector<int64_t>
      indices;  // View index_select (ViewAttrs::indices is null in the graph; lowering sets it)
};

class OpContext {
 public:
  OpContext(OpScope* model, const OpSpec* op, const std::vector<OpInput>* inputs, ReadOp* node)
      : model_(model), op_(op), inputs_(inputs), node_(node) {}

  const OpSpec& op() const { return *op_; }
  ReadOp& node() { return *node_; }
  const OpScope& model() const { return *model_; }
  size_t n_inputs() const { return inputs_->size(); }

  /// "op 'name' (Kind): text" with kBadModel, or kUnsupported.
  Status bad(const std::string& text) const;
  Status not_known(const std::string& text) const;

  // Inputs.
  Result<Dims> floats(size_t i) const;
  /// The feature whose ids input i holds.
  Result<const FeatureSpec*> bags(size_t i) const;

  // Attributes: the default when the key is absent, kBadModel when there is none or the type is wrong.
  bool has(const char* key) const { return op_->attrs.contains(key); }
  Result<int64_t> integer(const char* key, std::optional<int64_t> otherwise = {}) const;
  Result<float> number(const char* key, std::optional<float> otherwise = {}) const;
  Result<bool> flag(const char* key, bool otherwise) const;
  Result<std::string> text(const char* key, std::optional<std::string> otherwise = {}) const;
  Result<std::vector<int64_t>> integers(const char* key) const;
  /// `axis` resolved to 0 .. rank-1.
  Result<int32_t> axis(const Dims& x, std::optional<int64_t> otherwise = {}) const;
  /// kUnsupported for a key of attrs that is not in `keys`; `where` says when they hold ("kind relu").
  Status only_attrs(std::span<const std::string_view> keys, const std::string& where) const;
  Status only_attrs(std::initializer_list<std::string_view> keys, const std::string& where) const {
    return only_attrs(std::span(keys.begin(), keys.size()), where);
  }

  template <class E>
  Result<E> choice(const char* key, Choices<E> choices, std::optional<E> otherwise = {}) const {
    if (!has(key) && otherwise) return *otherwise;
    DPI_ASSIGN_OR_RETURN(const std::string value, text(key));
    std::string names;
    for (const auto& [name, result] : choices) {
      if (name == value) return result;
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    return not_known(std::string(key) + " is '" + value + "', expected one of " + names);
  }

  // Parameters. Shapes are looked at here; data is read after the whole graph has been checked.
  bool has_param(const char* role) const { return op_->params.contains(role); }
  Result<Dims> param_shape(const char* role) const;
  /// Adds the parameter to the node (-1 when it is absent).
  Status use_param(const char* role);
  /// The same, and refuses another shape than `expected`.
  Status use_param(const char* role, const Dims& expected);
  /// Refuses unless exactly these roles are given; `where` says when they hold.
  Status exactly_params(std::initializer_list<std::string_view> roles, const std::string& where) const;

 private:
  const AttrValue* find(const char* key) const;  // null when it is absent
  Status missing_attr(const char* key) const;
  Status wrong_attr(const char* key, const AttrValue& found, const char* expected) const;

  OpScope* model_;
  const OpSpec* op_;
  const std::vector<OpInput>* inputs_;
  ReadOp* node_;
};

}  // namespace dpi::ops
