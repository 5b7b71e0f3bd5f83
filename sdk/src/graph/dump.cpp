// The text form of a graph: one line per feature, table, parameter, node and head, in order. Tests hold it
// fixed.
#include "graph/graph.hpp"
#include "ops/table.hpp"
#include "ops/text.hpp"

namespace dpi {
namespace {

using ops::field;
using ops::text_of;

std::string feature_line(const FeatureSpec& f) {
  std::string s = f.name + " " + name_of(f.kind) + " " + name_of(f.space);
  if (f.is_keyed()) {
    s += field("keys", f.keys);
  } else if (f.is_slot()) {
    s += field("vocab", f.vocab_size);
  }
  if (f.kind == FeatureKind::kDense) s += field("dim", f.dim);
  if (f.max_len > 0) s += field("max_len", f.max_len);
  return s + (f.weighted ? " weighted" : "");
}

std::string node_line(const Graph& g, const GraphNode& n) {
  std::string s = std::string(op_name(n.kind)) + " " + n.name + "(";
  for (size_t i = 0; i < n.inputs.size(); ++i) s += (i == 0 ? "" : ", ") + g.values[n.inputs[i]].name;
  s += ")";
  if (n.feature >= 0) s += field("feature", g.features[n.feature].name);
  if (n.table >= 0) s += field("table", g.tables[n.table].name);
  s += form_of(n.kind).graph_text({n.attrs, {}, {}});
  if (!n.indices.empty()) s += field("indices", text_of(std::span<const int64_t>(n.indices)));
  bool any = false;
  for (const int32_t p : n.params) any = any || p >= 0;
  if (any) {
    s += " params=";
    for (size_t i = 0; i < n.params.size(); ++i) {
      s += (i == 0 ? "" : ",") + (n.params[i] < 0 ? std::string("-") : g.params[n.params[i]].name);
    }
  }
  const GraphValue& out = g.values[n.output];
  s += " -> " + (out.is_bags ? std::string("ids") : text_of(out.dims)) + " " + name_of(out.space);
  return n.module.empty() ? s : s + "  # " + n.module;
}

}  // namespace

std::string dump_graph(const Graph& g) {
  std::string s = "graph " + g.name + "\nfeatures\n";
  for (const FeatureSpec& f : g.features) s += "  " + feature_line(f) + "\n";
  s += "tables\n";
  for (const TableSpec& t : g.tables) {
    s += "  " + t.name + " [" + std::to_string(t.rows) + ", " + std::to_string(t.dim) + "] " +
         kernels::name_of(t.dtype) + (t.keys.empty() ? "" : field("keys", t.keys)) +
         (t.external ? " external" : "") + "\n";
  }
  s += "params\n";
  for (const GraphParam& p : g.params) s += "  " + p.name + " " + text_of(p.dims) + "\n";
  s += "nodes\n";
  for (const GraphNode& n : g.nodes) s += "  " + node_line(g, n) + "\n";
  s += "heads\n";
  for (const GraphHead& h : g.heads) {
    s += "  " + h.name + field("value", g.values[h.value].name);
    if (h.logit >= 0) s += field("logit", g.values[h.logit].name);
    if (!h.activation.empty()) s += field("activation", h.activation);
    s += "\n";
  }
  return s;
}

}  // namespace dpi
