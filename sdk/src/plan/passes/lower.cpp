// Graph to plan, one op per node.
#include <utility>

#include "ops/table.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

void lower_value(const Graph& graph, const GraphNode& node, PlanValue& v) {
  if (node.kind == OpKind::kInput) {
    v.storage = Storage::kInput;
    v.feature = node.feature;
    v.row_stride = 0;
    v.space = graph.values[static_cast<size_t>(node.output)].space;
  } else {
    v.storage = Storage::kConst;
    v.param = node.params.empty() ? -1 : node.params[0];
    v.row_stride = 0;
  }
}

/// The plan's table for a bundle table, made on first use.
int32_t table_for(const Graph& graph, Plan& plan, std::vector<int32_t>& known, int32_t table) {
  int32_t& made = known[static_cast<size_t>(table)];
  if (made >= 0) return made;
  const TableSpec& spec = graph.tables[static_cast<size_t>(table)];
  PlanTable t;
  t.name = spec.name;
  t.rows = spec.loaded_rows();
  t.dim = static_cast<int32_t>(spec.dim);
  t.dtype = spec.dtype;
  t.source = table;
  plan.tables.push_back(std::move(t));
  made = static_cast<int32_t>(plan.tables.size() - 1);
  return made;
}

PlanOp lower_op(const GraphNode& node) {
  PlanOp op;
  op.kind = node.kind;
  op.name = node.name;
  op.module = node.module;
  op.attrs = node.attrs;
  op.inputs = node.inputs;
  op.outputs = {node.output};
  op.params = node.params;
  op.indices = node.indices;
  const OpForm& form = form_of(node.kind);
  const size_t inputs = form.inputs.positions() - form.rare;
  if (op.inputs.size() < inputs) op.inputs.resize(inputs, -1);
  if (op.params.size() < form.params.positions()) op.params.resize(form.params.positions(), -1);
  return op;
}

}  // namespace

Plan lower(const Graph& graph) {
  Plan plan;
  plan.name = graph.name;
  plan.features = graph.features;
  plan.params.reserve(graph.params.size());
  for (const GraphParam& p : graph.params) plan.params.push_back({p.name, p.dims, p.data});
  for (const GraphValue& g : graph.values) {
    PlanValue v;
    v.name = g.name;
    v.is_bags = g.is_bags;
    v.dims = g.dims;
    v.space = g.space;
    v.row_stride = g.is_bags ? 0 : g.dims.size();
    plan.values.push_back(std::move(v));
  }
  std::vector<int32_t> tables(graph.tables.size(), -1);
  for (const GraphNode& node : graph.nodes) {
    if (node.kind == OpKind::kInput || node.kind == OpKind::kConst) {
      lower_value(graph, node, plan.values[static_cast<size_t>(node.output)]);
      continue;
    }
    PlanOp op = lower_op(node);
    if (node.kind == OpKind::kEmbed) {
      const int32_t t = table_for(graph, plan, tables, node.table);
      op.tables = {t};
      const auto& e = std::get<kernels::EmbedAttrs>(op.attrs);
      if (e.mask == kernels::MaskRule::kNonzero) plan.tables[static_cast<size_t>(t)].needs_nonzero = true;
    }
    plan.ops.push_back(std::move(op));
  }
  for (const GraphHead& h : graph.heads) plan.heads.push_back({h.name, h.activation, h.value, h.logit});
  return plan;
}

}  // namespace dpi::plan
