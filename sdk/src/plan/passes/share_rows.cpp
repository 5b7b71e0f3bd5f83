#include "plan/passes/share_rows.hpp"

#include "plan/analysis/pieces.hpp"

namespace dpi::plan {

int32_t repeated_value(const Plan& plan, const Index& index, int32_t v) {
  const int32_t i =
      static_cast<size_t>(v) < index.producer.size() ? index.producer[static_cast<size_t>(v)] : -1;
  if (i < 0 || plan.ops[static_cast<size_t>(i)].kind != OpKind::kBroadcastRows) return -1;
  const int32_t from = plan.ops[static_cast<size_t>(i)].inputs[0];
  return value_of(plan, from).space == RowSpace::kShared ? from : -1;
}

RowParts row_parts(const Plan& plan, const Index& index, int32_t matrix) {
  RowParts parts;
  int64_t at = 0;
  for (const int32_t piece : pieces_of(plan, index, matrix)) {
    const int32_t from = repeated_value(plan, index, piece);
    const std::vector<int32_t> values = from < 0 ? std::vector{piece} : pieces_of(plan, index, from);
    for (const int32_t v : values) {
      (from < 0 ? parts.items : parts.shared).push_back({v, at});
      at += value_of(plan, v).dims.size();
      if (from >= 0) parts.shared_width += value_of(plan, v).dims.size();
      parts.varies |= value_of(plan, v).space == RowSpace::kItem;
    }
  }
  return parts;
}

int32_t RowJoiner::flat(int32_t value) {
  const PlanValue from = value_of(p_, value);
  if (from.dims.rank == 1) return value;
  PlanOp op;
  op.kind = OpKind::kView;
  op.name = from.name + "/flat";
  kernels::ViewAttrs attrs;
  attrs.dims = dims_of({from.dims.size()});
  op.attrs = attrs;
  op.inputs = {value};
  op.outputs = {add_value(p_, op.name, attrs.dims, from.space)};
  p_.ops.push_back(op);
  return op.outputs[0];
}

int32_t RowJoiner::join(const std::vector<Columns>& columns, RowSpace space, const std::string& name) {
  std::vector<int32_t> values;
  for (const Columns& c : columns) values.push_back(c.value);
  if (const auto known = joined_.find(values); known != joined_.end()) return known->second;
  int32_t joined = -1;
  if (values.size() == 1) {
    joined = flat(values[0]);
  } else {
    PlanOp op;
    int64_t width = 0;
    for (const int32_t v : values) {
      op.inputs.push_back(flat(v));
      width += value_of(p_, v).dims.size();
    }
    op.kind = OpKind::kConcat;
    op.name = name;
    op.attrs = kernels::ConcatAttrs{0};
    joined = add_value(p_, name, dims_of({width}), space);
    op.outputs = {joined};
    p_.ops.push_back(std::move(op));
  }
  joined_.emplace(std::move(values), joined);
  return joined;
}

int32_t RowJoiner::repeat(int32_t value) {
  const auto [known, is_new] = repeated_.try_emplace(value, -1);
  if (!is_new) return known->second;
  const PlanValue from = value_of(p_, value);
  PlanOp op;
  op.kind = OpKind::kBroadcastRows;
  op.name = from.name + "@item";
  op.inputs = {value};
  known->second = add_value(p_, op.name, from.dims, RowSpace::kItem);
  op.outputs = {known->second};
  p_.ops.push_back(std::move(op));
  return known->second;
}

}  // namespace dpi::plan
