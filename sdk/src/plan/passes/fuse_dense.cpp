// Linear + bias + activation, and cross v2's product and residual, into Dense; Dense ops that read the same
// value into one.
#include <algorithm>
#include <map>
#include <utility>

#include "plan/analysis/pieces.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

bool plain_linear(const Plan& p, const PlanOp& op) {
  if (op.kind != OpKind::kLinear) return false;
  const auto& a = std::get<kernels::LinearAttrs>(op.attrs);
  if (numeric_projection(p, op) && op.params[1] < 0) return false;  // the lookup writes it
  const PlanValue& x = value_of(p, op.inputs[0]);
  return a.groups == 1 && a.axis == kernels::LinearAxis::kLast && x.dims.rank == 1 &&
         x.space != RowSpace::kConstant;
}

/// A tensor that Dense may multiply with or add: in memory, the output's dims and rows.
bool fits(const Plan& p, int32_t v, const PlanValue& out) {
  const PlanValue& x = value_of(p, v);
  return x.storage != Storage::kConst && x.storage != Storage::kInput && x.dims == out.dims &&
         x.space == out.space;
}

/// The other operand of a Binary of this kind that alone reads v, or -1.
int32_t partner(const Plan& p, const Index& ix, int32_t v, kernels::BinaryKind kind) {
  const PlanOp* op = only_user(p, ix, v, OpKind::kBinary);
  if (!op || std::get<kernels::BinaryAttrs>(op->attrs).kind != kind) return -1;
  const int32_t other = op->inputs[0] == v ? op->inputs[1] : op->inputs[0];
  return fits(p, other, value_of(p, v)) ? other : -1;
}

std::vector<float> per_column(const std::vector<float>& data, int64_t n) {
  return data.size() == static_cast<size_t>(n) ? data
                                               : std::vector<float>(static_cast<size_t>(n), data.at(0));
}

/// Affine maps always get both params, so that merged layers may stand beside layers without.
void absorb_activation(Plan& p, PlanOp& dense, const PlanOp& unary, int64_t n) {
  const auto& act = std::get<kernels::UnaryAttrs>(unary.attrs);
  dense.segments[0].act = act;
  const bool affine = act.kind == kernels::UnaryKind::kAffine;
  const bool scalar = unary.params[0] < 0 && unary.params[1] < 0;
  for (size_t k = 0; k < 3; ++k) {
    std::vector<float> data;
    if (unary.params[k] >= 0) {
      data = per_column(param_of(p, unary.params[k]).data, n);
    } else if (affine && k < 2) {
      const float fill = k == 0 ? (scalar ? act.a : 1.0f) : (scalar ? act.b : 0.0f);
      data.assign(static_cast<size_t>(n), fill);
    } else {
      continue;
    }
    dense.params[2 + k] = add_param(p, unary.name + ".p" + std::to_string(k), dims_of({n}), std::move(data));
  }
}

void make_dense(Plan& p, const Index& ix, size_t i) {
  PlanOp d = p.ops[i];
  const int64_t n = value_of(p, d.outputs[0]).dims.size();
  d.kind = OpKind::kDense;
  d.attrs = kernels::DenseAttrs{};
  d.segments = {kernels::DenseSegment{{}, 0, n}};
  d.inputs = {p.ops[i].inputs[0], -1, -1};
  d.params = {p.ops[i].params[0], p.ops[i].params[1], -1, -1, -1};
  int32_t out = d.outputs[0];
  auto step_over = [&](OpKind kind) {
    PlanOp& op = p.ops[static_cast<size_t>(only_user(p, ix, out, kind) - p.ops.data())];
    out = op.outputs[0];
    kill(op);
  };
  const PlanOp* const unary = only_user(p, ix, out, OpKind::kUnary);
  if (unary != nullptr && has_room(p, 3 * n, unary->name)) {
    const PlanOp copy = *unary;
    absorb_activation(p, d, copy, n);
    step_over(OpKind::kUnary);
  }
  if (const int32_t mul = partner(p, ix, out, kernels::BinaryKind::kMul); mul >= 0) {
    d.inputs[1] = mul;
    step_over(OpKind::kBinary);
  }
  if (const int32_t add = partner(p, ix, out, kernels::BinaryKind::kAdd); add >= 0) {
    d.inputs[2] = add;
    step_over(OpKind::kBinary);
  }
  d.outputs = {out};
  p.ops[i] = std::move(d);
}

// ---- merging

bool mergeable(const PlanOp& op) {
  return op.kind == OpKind::kDense && op.inputs.size() == 3 && op.inputs[1] < 0 && op.inputs[2] < 0;
}

/// Concatenates one param of the members over columns; absent ones are zeros. -1 when all are absent.
int32_t joined(Plan& p, const std::vector<size_t>& members, size_t param, int64_t width,
               const std::string& name) {
  bool any = false;
  std::vector<float> data;
  for (size_t i : members) {
    const PlanOp& op = p.ops[i];
    const int64_t n = op.segments.back().end;
    if (op.params[param] < 0) {
      data.insert(data.end(), static_cast<size_t>(n * width), 0.0f);
    } else {
      const std::vector<float>& rows = param_of(p, op.params[param]).data;
      data.insert(data.end(), rows.begin(), rows.end());
      any = true;
    }
  }
  if (!any) return -1;
  const auto rows = static_cast<int64_t>(data.size()) / width;
  const Dims dims = param == 0 ? dims_of({rows, width}) : dims_of({rows});
  return add_param(p, name, dims, std::move(data));
}

/// At most: of weights, bias and what activations have.
int64_t merged_floats(const Plan& p, int32_t x, const std::vector<size_t>& members) {
  int64_t columns = 0;
  for (const size_t i : members) columns += p.ops[i].segments.back().end;
  return columns * (value_of(p, x).dims.size() + 4);
}

void merge(Plan& p, const std::vector<size_t>& members) {
  const int32_t x = p.ops[members[0]].inputs[0];
  const int64_t in = value_of(p, x).dims.size();
  PlanOp d;
  d.kind = OpKind::kDense;
  d.name = p.ops[members[0]].name + "+" + std::to_string(members.size() - 1);
  d.module = p.ops[members[0]].module;
  d.attrs = kernels::DenseAttrs{};
  d.inputs = {x, -1, -1};
  for (size_t k = 0; k < 5; ++k)
    d.params.push_back(joined(p, members, k, k == 0 ? in : 1, d.name + ".p" + std::to_string(k)));
  int64_t at = 0;
  std::vector<PlanOp> views;
  for (size_t i : members) {
    const PlanOp& op = p.ops[i];
    for (kernels::DenseSegment s : op.segments) {
      s.begin += at;
      s.end += at;
      d.segments.push_back(s);
    }
    PlanOp view;
    view.kind = OpKind::kView;
    view.name = op.name;
    view.module = op.module;
    kernels::ViewAttrs slice;
    slice.kind = kernels::ViewKind::kSlice;
    slice.begin = at;
    at += op.segments.back().end;
    slice.end = at;
    view.attrs = slice;
    view.outputs = op.outputs;
    views.push_back(std::move(view));
  }
  const int32_t out = add_value(p, d.name, dims_of({at}), value_of(p, x).space);
  d.outputs = {out};
  for (size_t i : members) kill(p.ops[i]);
  p.ops[members[0]] = std::move(d);
  for (PlanOp& v : views) {
    v.inputs = {out};
    p.ops.push_back(std::move(v));
  }
  p.notes.push_back("merged " + std::to_string(members.size()) + " linear layers over '" +
                    value_of(p, x).name + "'");
}

}  // namespace

Result<Plan> fuse_dense(Plan p) {
  const Index ix = index_of(p);
  for (size_t i = 0; i < p.ops.size(); ++i) {
    if (plain_linear(p, p.ops[i])) make_dense(p, ix, i);
  }
  return cleanup(std::move(p));
}

Result<Plan> merge_dense(Plan p) {
  std::map<int32_t, std::vector<size_t>> by_input;
  for (size_t i = 0; i < p.ops.size(); ++i) {
    if (mergeable(p.ops[i])) by_input[p.ops[i].inputs[0]].push_back(i);
  }
  for (const auto& [x, members] : by_input) {
    if (members.size() > 1 && has_room(p, merged_floats(p, x, members), p.ops[members[0]].name))
      merge(p, members);
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
