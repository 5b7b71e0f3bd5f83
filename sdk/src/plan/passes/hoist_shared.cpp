// W [u | i] = Wu u + Wi i: the columns of a layer that shared rows give are multiplied once per user, and the
// product is added where the items' one ends (Dense's `shared`). A request without a shared part takes the
// same two products in the same order, each row with its own user, so both forms have the same bits.
#include <utility>

#include "plan/passes/share_rows.hpp"

namespace dpi::plan {
namespace {

constexpr int64_t kLeastRowColumns = 8;  // fewer cost less than a second product

/// The columns of a weight [out, in] that these values fill, side by side.
std::vector<float> take_columns(const Plan& p, const PlanParam& weight, const std::vector<Columns>& columns) {
  const int64_t out = weight.dims.d[0], in = weight.dims.d[1];
  std::vector<float> taken;
  for (int64_t o = 0; o < out; ++o) {
    const float* row = weight.data.data() + o * in;
    for (const Columns& c : columns)
      taken.insert(taken.end(), row + c.begin, row + c.begin + value_of(p, c.value).dims.size());
  }
  return taken;
}

int32_t add_weight(Plan& p, const std::string& name, int32_t weight, const std::vector<Columns>& columns) {
  std::vector<float> data = take_columns(p, param_of(p, weight), columns);
  const int64_t out = param_of(p, weight).dims.d[0];
  const Dims dims = dims_of({out, static_cast<int64_t>(data.size()) / out});
  return add_param(p, name, dims, std::move(data));
}

bool may_split(const Plan& p, const PlanOp& op) {
  return op.kind == OpKind::kDense && op.inputs.size() == 3 &&
         value_of(p, op.outputs[0]).space == RowSpace::kItem;
}

void split_product(Plan& p, RowJoiner& rows, size_t at, const RowParts& parts) {
  PlanOp d = p.ops[at];
  const int64_t out = value_of(p, d.outputs[0]).dims.size();
  PlanOp s;
  s.kind = OpKind::kDense;
  s.name = d.name + "/shared";
  s.module = d.module;
  s.attrs = kernels::DenseAttrs{};
  s.segments = {kernels::DenseSegment{{}, 0, out}};
  s.inputs = {rows.join(parts.shared, RowSpace::kShared, "shared_columns"), -1, -1};
  s.params = {add_weight(p, s.name + ".weight", d.params[0], parts.shared), -1, -1, -1, -1};
  s.outputs = {add_value(p, s.name, dims_of({out}), RowSpace::kShared)};
  d.params[0] = add_weight(p, d.name + ".item_weight", d.params[0], parts.items);
  d.inputs = {rows.join(parts.items, RowSpace::kItem, "item_columns"), d.inputs[1], d.inputs[2],
              s.outputs[0]};
  p.notes.push_back("shared: " + std::to_string(parts.shared_width) + " columns of '" + d.name +
                    "' are multiplied once per user");
  p.ops[at] = std::move(d);
  p.ops.push_back(std::move(s));
}

}  // namespace

Result<Plan> hoist_shared(Plan p) {
  const Index ix = index_of(p);
  RowJoiner rows(p);
  const size_t n = p.ops.size();
  for (size_t i = 0; i < n; ++i) {
    if (!may_split(p, p.ops[i])) continue;
    const RowParts parts = row_parts(p, ix, p.ops[i].inputs[0]);
    if (parts.shared_width < kLeastRowColumns || !parts.varies) continue;
    split_product(p, rows, i, parts);
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
