// What the handler of one op sees while a graph is built: checked access to its attributes, inputs and
// parameters, with errors that name the op. Called by the handlers in ops_*.cpp; made by build.cpp.
//
// Codes: what a newer format may have introduced (a key, a role, a choice) is kUnsupported; what no format
// allows is kBadModel.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.hpp"

namespace dpi::graph_build {

/// "[3, 4]".
std::string text_of(const Dims& d);
std::string text_of(std::span<const int64_t> d);
/// The value with the shortest decimal form that reads back as the same float.
std::string text_of(float v);

/// Dims from a list of extents; nothing when the rank is not 1..5 or an extent is not positive.
std::optional<Dims> dims_of(std::span<const int64_t> extents);
/// Dims without their last `n` axes, and with one more at the end.
Dims drop_last(const Dims& d, int n);
Dims append(Dims d, int64_t extent);
/// Aligned at the right, extents of 1 repeat; nothing when they do not fit.
std::optional<Dims> broadcast(const Dims& a, const Dims& b);

template <class E>
using Choices = std::initializer_list<std::pair<std::string_view, E>>;

/// The graph in the making and the indices that only building needs.
struct BuildState {
  Graph graph;
  ParamSource* source = nullptr;
  std::map<std::string, int32_t, std::less<>> value_by_name;
  std::map<std::string, int32_t, std::less<>> param_by_name;
  std::map<std::string, int32_t, std::less<>> feature_by_name;
  std::map<std::string, int32_t, std::less<>> table_by_name;
  std::map<int32_t, int32_t> broadcast_of;  // value -> its item-space copy
};

class OpContext {
 public:
  OpContext(BuildState* state, const OpSpec* op, GraphNode* node) : state_(state), op_(op), node_(node) {}

  const OpSpec& op() const { return *op_; }
  GraphNode& node() { return *node_; }
  const BuildState& state() const { return *state_; }
  size_t n_inputs() const { return node_->inputs.size(); }

  /// "op 'name' (Kind): text" with kBadModel, or kUnsupported.
  Status bad(const std::string& text) const;
  Status not_known(const std::string& text) const;

  // Inputs.
  Result<Dims> floats(size_t i) const;
  /// The feature whose ids input i holds; its index goes to *feature when given.
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
  Status only_attrs(std::initializer_list<std::string_view> keys, const std::string& where) const;

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

  BuildState* state_;
  const OpSpec* op_;
  GraphNode* node_;
};

}  // namespace dpi::graph_build
