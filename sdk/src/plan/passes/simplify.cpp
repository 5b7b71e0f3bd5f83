// Ops over constants are computed now, ops that change nothing disappear, vectors are not written out
// several times for ops that repeat them, and broadcasts that stand side by side become one.
#include <algorithm>
#include <limits>
#include <utility>

#include "ops/table.hpp"
#include "plan/analysis/cost.hpp"
#include "plan/analysis/definition.hpp"
#include "plan/analysis/form.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

constexpr int64_t kMaxFoldedFloats = 1 << 20;  // of one value
constexpr double kMostFoldedWork = 1 << 26;    // of all ops over constants: a tenth of a second

// ---- constants

kernels::Tensor tensor_of(const Plan& p, int32_t v) {
  kernels::Tensor t;
  if (v < 0) return t;
  t.dims = value_of(p, v).dims;
  t.rows = 1;
  t.row_stride = t.dims.size();
  t.data = const_cast<float*>(const_data(p, v)->data());  // read only
  return t;
}

kernels::Param weight_of(const Plan& p, int32_t w) {
  if (w < 0) return {};
  return {param_of(p, w).data.data(), param_of(p, w).dims};
}

/// Runs the definition of an op that folds; weights stay the plan's.
void evaluate(const Plan& p, const PlanOp& op, kernels::Tensor dst) {
  std::vector<kernels::Param> params;
  params.reserve(op.params.size());
  for (const int32_t w : op.params) params.push_back(weight_of(p, w));
  std::vector<kernels::Operand> inputs(op.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].tensor = tensor_of(p, op.inputs[i]);
  run_definition(op, inputs, std::move(params), dst);
}

/// `work`: multiply-adds and floats that folds may still take; a few numbers, repeated, may ask for any.
bool fold_constant(Plan& p, PlanOp& op, double* work) {
  if (!form_of(op.kind).folds) return false;
  if (op.inputs.empty() || op.outputs.size() != 1 || value_of(p, op.outputs[0]).storage != Storage::kArena)
    return false;
  for (int32_t v : op.inputs) {
    if (v >= 0 && !const_data(p, v)) return false;
  }
  PlanValue& out = p.values[static_cast<size_t>(op.outputs[0])];
  if (out.dims.size() > kMaxFoldedFloats || !has_room(p, out.dims.size(), op.name)) return false;
  const OpWork takes = work_of(p, op);
  if (takes.flops + takes.floats > *work) {
    note_no_room(p, op.name);
    return false;
  }
  *work -= takes.flops + takes.floats;
  std::vector<float> data(static_cast<size_t>(out.dims.size()), std::numeric_limits<float>::quiet_NaN());
  kernels::Tensor dst;
  dst.data = data.data();
  dst.rows = 1;
  dst.dims = out.dims;
  dst.row_stride = out.dims.size();
  evaluate(p, op, dst);
  const int32_t param = add_param(p, out.name, out.dims, std::move(data));
  out.storage = Storage::kConst;
  out.param = param;
  out.row_stride = 0;
  kill(op);
  return true;
}

// ---- ops that change nothing

bool changes_nothing(const Plan& p, const PlanOp& op) {
  if (op.kind == OpKind::kUnary) {
    const auto& a = std::get<kernels::UnaryAttrs>(op.attrs);
    if (a.kind == kernels::UnaryKind::kIdentity) return true;
    return a.kind == kernels::UnaryKind::kAffine && op.params[0] < 0 && op.params[1] < 0 && a.a == 1.0f &&
           a.b == 0.0f;
  }
  if (op.kind == OpKind::kConcat) return op.inputs.size() == 1;
  if (op.kind != OpKind::kView || std::get<kernels::ViewAttrs>(op.attrs).kind != kernels::ViewKind::kReshape)
    return false;
  return value_of(p, op.inputs[0]).dims == value_of(p, op.outputs[0]).dims;
}

void drop_idle(Plan& p) {
  std::vector<int32_t> same(p.values.size());
  for (size_t v = 0; v < same.size(); ++v) same[v] = static_cast<int32_t>(v);
  for (PlanOp& op : p.ops) {
    for (int32_t& v : op.inputs) v = v < 0 ? v : same[static_cast<size_t>(v)];
    if (!changes_nothing(p, op) || value_of(p, op.inputs[0]).space != value_of(p, op.outputs[0]).space)
      continue;
    same[static_cast<size_t>(op.outputs[0])] = op.inputs[0];
    kill(op);
  }
  for (PlanHead& h : p.heads) {
    h.value = same[static_cast<size_t>(h.value)];
    if (h.logit >= 0) h.logit = same[static_cast<size_t>(h.logit)];
  }
}

// ---- repeated vectors

/// The value that v repeats if v is expanded, else v.
int32_t before_expand(const Plan& p, const Index& ix, int32_t v) {
  const int32_t i = v < 0 ? -1 : ix.producer[static_cast<size_t>(v)];
  if (i < 0 || p.ops[static_cast<size_t>(i)].kind != OpKind::kView) return v;
  const PlanOp& view = p.ops[static_cast<size_t>(i)];
  const bool expands = std::get<kernels::ViewAttrs>(view.attrs).kind == kernels::ViewKind::kExpand;
  return expands ? view.inputs[0] : v;
}

/// Binary and Where repeat what is too small on their own, as long as another operand has the result's dims.
void read_unexpanded(Plan& p) {
  const Index ix = index_of(p);
  for (PlanOp& op : p.ops) {
    if (op.kind != OpKind::kBinary && op.kind != OpKind::kWhere) continue;
    const Dims& dims = value_of(p, op.outputs[0]).dims;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      bool held = false;
      for (size_t k = 0; k < op.inputs.size(); ++k)
        held = held || (k != i && value_of(p, op.inputs[k]).dims == dims);
      if (held) op.inputs[i] = before_expand(p, ix, op.inputs[i]);
    }
  }
}

// ---- broadcasts

bool is_broadcast(const Plan& p, const Index& ix, int32_t v) {
  const int32_t i = ix.producer[static_cast<size_t>(v)];
  return i >= 0 && p.ops[static_cast<size_t>(i)].kind == OpKind::kBroadcastRows && ix.single_use(v) &&
         value_of(p, p.ops[static_cast<size_t>(i)].inputs[0]).space == RowSpace::kShared;
}

/// Inputs [begin, end) of a Concat come from shared rows: joins them there and repeats the joined row once.
int32_t join_before_broadcast(Plan& p, const Index& ix, const PlanOp& concat, size_t begin, size_t end) {
  const int32_t axis = std::get<kernels::ConcatAttrs>(concat.attrs).axis;
  PlanOp join, repeat;
  Dims dims = value_of(p, concat.inputs[begin]).dims;
  dims.d[axis] = 0;
  for (size_t k = begin; k < end; ++k) {
    dims.d[axis] += value_of(p, concat.inputs[k]).dims.d[axis];
    join.inputs.push_back(
        p.ops[static_cast<size_t>(ix.producer[static_cast<size_t>(concat.inputs[k])])].inputs[0]);
  }
  join.kind = OpKind::kConcat;
  join.name = concat.name + "/shared" + std::to_string(begin);
  join.module = concat.module;
  join.attrs = concat.attrs;
  const int32_t joined = add_value(p, join.name, dims, RowSpace::kShared);
  const int32_t repeated = add_value(p, join.name + "@item", dims, RowSpace::kItem);
  join.outputs = {joined};
  repeat.kind = OpKind::kBroadcastRows;
  repeat.name = join.name + "@item";
  repeat.module = concat.module;
  repeat.inputs = {joined};
  repeat.outputs = {repeated};
  p.ops.push_back(std::move(join));
  p.ops.push_back(std::move(repeat));
  return repeated;
}

void join_broadcasts(Plan& p) {
  const Index ix = index_of(p);
  const size_t n = p.ops.size();
  for (size_t i = 0; i < n; ++i) {
    if (p.ops[i].kind != OpKind::kConcat) continue;
    const PlanOp concat = p.ops[i];
    std::vector<int32_t> inputs;
    for (size_t k = 0; k < concat.inputs.size();) {
      size_t end = k;
      while (end < concat.inputs.size() && is_broadcast(p, ix, concat.inputs[end])) ++end;
      if (end - k < 2) {
        inputs.push_back(concat.inputs[k++]);
        continue;
      }
      inputs.push_back(join_before_broadcast(p, ix, concat, k, end));
      k = end;
    }
    p.ops[i].inputs = std::move(inputs);
  }
}

}  // namespace

Result<Plan> simplify(Plan p) {
  int folded = 0;
  double work = kMostFoldedWork;
  for (PlanOp& op : p.ops) folded += fold_constant(p, op, &work) ? 1 : 0;
  if (folded > 0) p.notes.push_back("simplify: " + std::to_string(folded) + " ops over constants computed");
  drop_idle(p);
  read_unexpanded(p);
  DPI_ASSIGN_OR_RETURN(p, cleanup(std::move(p)));
  join_broadcasts(p);
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
