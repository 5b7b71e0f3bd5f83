#include <algorithm>
#include <map>
#include <set>

#include "base/checked.hpp"
#include "graph/graph.hpp"
#include "ops/table.hpp"

namespace dpi {
namespace {

using ops::OpContext;
using ops::OpInput;
using ops::text_of;

constexpr size_t kMaxOps = 100000;
constexpr size_t kMaxHeads = 256;
constexpr int64_t kMaxElements = int64_t{1} << 24;

using NameIndex = std::map<std::string, int32_t, std::less<>>;

/// The graph in the making and the indices that only building needs.
struct BuildState final : ops::OpScope {
  Graph graph;
  ParamSource* source = nullptr;
  NameIndex value_by_name;
  NameIndex param_by_name;
  NameIndex feature_by_name;
  NameIndex table_by_name;
  std::map<int32_t, int32_t> broadcast_of;  // value -> its item-space copy

  const FeatureSpec* feature(const std::string& name, int32_t* index) const override {
    return find(feature_by_name, graph.features, name, index);
  }
  const TableSpec* table(const std::string& name, int32_t* index) const override {
    return find(table_by_name, graph.tables, name, index);
  }
  Result<std::vector<int64_t>> param_shape(const std::string& name) const override {
    return source->shape(name);
  }
  int32_t add_param(const std::string& name, const Dims& dims) override {
    const auto [it, is_new] = param_by_name.try_emplace(name, static_cast<int32_t>(graph.params.size()));
    if (is_new) graph.params.push_back({name, dims, {}});
    return it->second;
  }

 private:
  template <class T>
  static const T* find(const NameIndex& names, const std::vector<T>& list, const std::string& name,
                       int32_t* index) {
    const auto it = names.find(name);
    if (it == names.end()) return nullptr;
    *index = it->second;
    return &list[static_cast<size_t>(it->second)];
  }
};

/// Follows inputs from `from`; a path back to `to` is a cycle and is returned as "a -> b -> a", else "".
std::string path_between(const Manifest& m, const std::map<std::string, size_t>& index, size_t from,
                         size_t to) {
  std::map<size_t, size_t> reached_from;
  std::vector<size_t> open = {from};
  std::set<size_t> seen = {from};
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    if (at == to) {
      std::string text = "'" + m.ops[to].name + "'";
      for (size_t i = to; i != from; i = reached_from.at(i))
        text += " -> '" + m.ops[reached_from.at(i)].name + "'";
      return text + " -> '" + m.ops[to].name + "'";
    }
    for (const std::string& input : m.ops[at].inputs) {
      const auto it = index.find(input);
      if (it == index.end() || !seen.insert(it->second).second) continue;
      reached_from[it->second] = at;
      open.push_back(it->second);
    }
  }
  return "";
}

/// Why `input` of op number `position` is not a value yet.
Status explain_missing_input(const Manifest& m, size_t position, const std::string& input) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < m.ops.size(); ++i) index.emplace(m.ops[i].name, i);
  const OpSpec& op = m.ops[position];
  const std::string place = "op '" + op.name + "' (" + op.op + "): ";
  const auto it = index.find(input);
  if (it == index.end()) return bad_model(place + "input '" + input + "' does not exist");
  const std::string cycle = path_between(m, index, it->second, position);
  if (!cycle.empty()) return bad_model(place + "the graph has a cycle: " + cycle);
  return bad_model(place + "input '" + input + "' is defined later, expected topological order");
}

Status check_form(const OpContext& c, const OpForm& form) {
  const OpSpec& op = c.op();
  const auto n = static_cast<int64_t>(op.inputs.size());
  if (n < form.min_inputs || n > form.max_inputs) {
    const std::string least = std::to_string(form.min_inputs), most = std::to_string(form.max_inputs);
    return c.bad(std::to_string(n) + " inputs, expected " + (least == most ? least : least + " to " + most));
  }
  DPI_RETURN_IF_ERROR(c.only_attrs(std::span(form.keys.begin(), form.keys.size()), ""));
  for (const std::string_view role : form.roles) {
    if (!role.ends_with('?') && !op.params.contains(std::string(role)))
      return c.bad("parameter '" + std::string(role) + "' is missing");
  }
  for (const auto& [role, name] : op.params) {
    const auto is_role = [&role = role](std::string_view r) { return r == role || r == role + "?"; };
    if (std::none_of(form.roles.begin(), form.roles.end(), is_role)) {
      return c.not_known("parameter '" + role + "' is not known");
    }
  }
  return ok_status();
}

/// Rank, extents and size of a value within FORMAT.md part 11.
Status check_dims(const OpContext& c, const Dims& d) {
  int64_t n = 1;
  for (int i = 0; i < d.rank; ++i) {
    const auto product = checked_mul(n, d.d[i]);
    if (d.d[i] < 1) return c.bad("the value would be " + text_of(d) + ", expected extents of at least 1");
    if (!product || *product > kMaxElements) {
      return c.bad("the value would be " + text_of(d) + ", more than 2^24 elements per row");
    }
    n = *product;
  }
  return ok_status();
}

int32_t add_value(Graph* g, GraphValue v) {
  v.producer = static_cast<int32_t>(g->nodes.size());
  g->values.push_back(std::move(v));
  return static_cast<int32_t>(g->values.size()) - 1;
}

OpInput input_of(const Graph& g, int32_t value) {
  const GraphValue& v = g.values[static_cast<size_t>(value)];
  const FeatureSpec* feature = v.is_bags ? &g.features[g.nodes[v.producer].feature] : nullptr;
  return {v.name, v.is_bags, v.dims, feature};
}

/// The item-space copy of a value: itself, or the output of its one BroadcastRows node. The name holds '@',
/// which no op of a bundle can.
int32_t in_item_space(BuildState* s, int32_t value) {
  if (s->graph.values[value].space == RowSpace::kItem) return value;
  const auto it = s->broadcast_of.find(value);
  if (it != s->broadcast_of.end()) return it->second;
  GraphValue copy = s->graph.values[value];
  copy.name += "@item";
  copy.space = RowSpace::kItem;
  GraphNode node;
  node.kind = OpKind::kBroadcastRows;
  node.name = copy.name;
  node.module = s->graph.nodes[copy.producer].module;
  node.inputs = {value};
  node.output = add_value(&s->graph, std::move(copy));
  s->broadcast_of[value] = node.output;
  s->graph.nodes.push_back(std::move(node));
  return s->graph.nodes.back().output;
}

RowSpace space_of(const BuildState& s, const GraphNode& node) {
  if (node.kind == OpKind::kInput) return s.graph.features[node.feature].space;
  RowSpace space = RowSpace::kConstant;
  for (const int32_t v : node.inputs) space = std::max(space, s.graph.values[v].space);
  return space;
}

Status add_op(BuildState* s, const Manifest& m, size_t position) {
  const OpSpec& op = m.ops[position];
  GraphNode node;
  std::vector<OpInput> inputs;
  OpContext c(s, &op, &inputs, &node);
  const OpForm* form = find_primitive(op.op);
  if (form == nullptr) return c.not_known("this op is not known");
  if (op.version != 1)
    return c.not_known("version " + std::to_string(op.version) + " is not known, expected 1");
  if (form->since > m.version_minor)
    return c.bad("needs format 2." + std::to_string(form->since) + ", the file says 2." +
                 std::to_string(m.version_minor));
  if (s->value_by_name.contains(op.name)) return c.bad("the name is used by an op before it");
  DPI_RETURN_IF_ERROR(check_form(c, *form));
  node.kind = form->kind;
  node.name = op.name;
  node.module = op.module;
  for (const std::string& input : op.inputs) {
    const auto it = s->value_by_name.find(input);
    if (it == s->value_by_name.end()) return explain_missing_input(m, position, input);
    node.inputs.push_back(it->second);
    inputs.push_back(input_of(s->graph, it->second));
  }
  DPI_ASSIGN_OR_RETURN(const Dims dims, form->infer(c));
  DPI_RETURN_IF_ERROR(check_dims(c, dims));

  GraphValue value;
  value.name = op.name;
  value.dims = dims;
  value.is_bags = node.kind == OpKind::kInput && dims.rank == 0;
  value.space = space_of(*s, node);
  if (value.space == RowSpace::kItem) {
    for (int32_t& v : node.inputs) {
      if (s->graph.values[v].space == RowSpace::kShared) v = in_item_space(s, v);
    }
  }
  node.output = add_value(&s->graph, std::move(value));
  s->value_by_name.emplace(op.name, node.output);
  s->graph.nodes.push_back(std::move(node));
  return ok_status();
}

Result<int32_t> head_value(BuildState* s, const HeadSpec& head, const char* key, const std::string& name) {
  const std::string place = "head '" + head.name + "': " + key + " '" + name + "'";
  const auto it = s->value_by_name.find(name);
  if (it == s->value_by_name.end()) return bad_model(place + " is not an op");
  const GraphValue& v = s->graph.values[it->second];
  if (v.is_bags) return bad_model(place + " holds ids, expected one float per row");
  if (v.dims.size() != 1) return bad_model(place + " is " + text_of(v.dims) + ", expected one float per row");
  return in_item_space(s, it->second);
}

Status add_heads(BuildState* s, const Manifest& m) {
  if (m.heads.empty()) return bad_model("the manifest has no heads, expected at least one");
  if (m.heads.size() > kMaxHeads) {
    return bad_model("the manifest has " + std::to_string(m.heads.size()) + " heads, expected at most 256");
  }
  std::set<std::string> names;
  for (const HeadSpec& head : m.heads) {
    if (!names.insert(head.name).second) return bad_model("head '" + head.name + "' is defined twice");
    GraphHead h;
    h.name = head.name;
    h.activation = head.activation;
    DPI_ASSIGN_OR_RETURN(h.value, head_value(s, head, "value", head.value));
    if (!head.logit.empty()) {
      DPI_ASSIGN_OR_RETURN(h.logit, head_value(s, head, "logit", head.logit));
    }
    s->graph.heads.push_back(std::move(h));
  }
  return ok_status();
}

/// After everything has been checked against shapes.
Status read_params(BuildState* s) {
  for (GraphParam& p : s->graph.params) {
    auto data = s->source->read(p.name);
    if (!data.ok()) return std::move(data).status().within("parameter '" + p.name + "'");
    if (static_cast<int64_t>(data->size()) != p.dims.size()) {
      return bad_model("parameter '" + p.name + "': read " + std::to_string(data->size()) +
                       " floats, expected " + text_of(p.dims));
    }
    p.data = std::move(data).value();
  }
  return ok_status();
}

template <class T>
Status index_names(const std::vector<T>& list, const char* what, NameIndex* out) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (!out->emplace(list[i].name, static_cast<int32_t>(i)).second) {
      return bad_model(std::string(what) + " '" + list[i].name + "' is defined twice");
    }
  }
  return ok_status();
}

}  // namespace

Result<Graph> build_graph(const Manifest& manifest, ParamSource& params) {
  if (manifest.ops.size() > kMaxOps) {
    return bad_model("the manifest has " + std::to_string(manifest.ops.size()) +
                     " ops, expected at most 100000");
  }
  BuildState s;
  s.source = &params;
  s.graph.name = manifest.name;
  s.graph.features = manifest.features;
  s.graph.tables = manifest.tables;
  DPI_RETURN_IF_ERROR(index_names(manifest.features, "feature", &s.feature_by_name));
  DPI_RETURN_IF_ERROR(index_names(manifest.tables, "table", &s.table_by_name));
  for (size_t i = 0; i < manifest.ops.size(); ++i) DPI_RETURN_IF_ERROR(add_op(&s, manifest, i));
  DPI_RETURN_IF_ERROR(add_heads(&s, manifest));
  DPI_RETURN_IF_ERROR(read_params(&s));
  return std::move(s.graph);
}

}  // namespace dpi
