// FM over fields of users and of items: fm(u, i) = fm(u) + fm(i, S) where S, the sum of the user's vectors,
// stands for them as one field. fm(u) and S are made once per user.
#include <utility>

#include "plan/passes/share_rows.hpp"

namespace dpi::plan {
namespace {

constexpr size_t kLeastFields = 2;

bool whole_fields(const Plan& p, const std::vector<Columns>& columns, int64_t dim) {
  for (const Columns& c : columns) {
    if (c.begin % dim != 0 || value_of(p, c.value).dims.size() % dim != 0) return false;
  }
  return true;
}

int32_t add_fm(Plan& p, int32_t x, int64_t dim, const std::string& name) {
  const int64_t fields = value_of(p, x).dims.size() / dim;
  PlanOp fm;
  fm.kind = OpKind::kFm;
  fm.name = name;
  fm.attrs = kernels::FmAttrs{fields, dim};
  fm.inputs = {x};
  fm.outputs = {add_value(p, name, dims_of({1}), value_of(p, x).space)};
  p.ops.push_back(fm);
  return fm.outputs[0];
}

/// The sum of the fields' vectors in x [fields * dim].
int32_t add_sum(Plan& p, int32_t x, int64_t dim, const std::string& name) {
  const Dims dims = dims_of({value_of(p, x).dims.size() / dim, dim});
  PlanOp view;
  view.kind = OpKind::kView;
  view.name = name + "/fields";
  kernels::ViewAttrs shape;
  shape.dims = dims;
  view.attrs = shape;
  view.inputs = {x};
  view.outputs = {add_value(p, view.name, dims, value_of(p, x).space)};
  PlanOp sum;
  sum.kind = OpKind::kReduce;
  sum.name = name;
  kernels::ReduceAttrs reduce;
  reduce.axis = 0;
  sum.attrs = reduce;
  sum.inputs = {view.outputs[0], -1};
  sum.outputs = {add_value(p, name, dims_of({dim}), value_of(p, x).space)};
  p.ops.push_back(std::move(view));
  p.ops.push_back(sum);
  return sum.outputs[0];
}

void split_factors(Plan& p, RowJoiner& rows, size_t at, const RowParts& parts) {
  const PlanOp whole = p.ops[at];
  const int64_t dim = std::get<kernels::FmAttrs>(whole.attrs).dim;
  const int32_t users = rows.join(parts.shared, RowSpace::kShared, whole.name + "/shared_fields");
  std::vector<Columns> fields = parts.items;
  fields.push_back({rows.repeat(add_sum(p, users, dim, whole.name + "/shared_sum")), 0});
  const int32_t own = rows.repeat(add_fm(p, users, dim, whole.name + "/shared"));
  const int32_t rest =
      add_fm(p, rows.join(fields, RowSpace::kItem, whole.name + "/item_fields"), dim, whole.name + "/item");
  PlanOp add;
  add.kind = OpKind::kBinary;
  add.name = whole.name;
  add.module = whole.module;
  add.attrs = kernels::BinaryAttrs{kernels::BinaryKind::kAdd};
  add.inputs = {rest, own};
  add.outputs = whole.outputs;
  p.ops[at] = std::move(add);
  p.notes.push_back("shared: FM sums " + std::to_string(parts.shared_width / dim) + " fields once per user");
}

}  // namespace

Result<Plan> split_fm(Plan p) {
  const Index ix = index_of(p);
  RowJoiner rows(p);
  const size_t n = p.ops.size();
  for (size_t i = 0; i < n; ++i) {
    if (p.ops[i].kind != OpKind::kFm || value_of(p, p.ops[i].outputs[0]).space != RowSpace::kItem) continue;
    const int64_t dim = std::get<kernels::FmAttrs>(p.ops[i].attrs).dim;
    const RowParts parts = row_parts(p, ix, p.ops[i].inputs[0]);
    const bool enough = parts.shared_width >= static_cast<int64_t>(kLeastFields) * dim && parts.varies;
    if (enough && whole_fields(p, parts.shared, dim) && whole_fields(p, parts.items, dim))
      split_factors(p, rows, i, parts);
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
