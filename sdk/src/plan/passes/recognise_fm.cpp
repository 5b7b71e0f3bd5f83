// FM's second-order term: c (|sum_f e_f|^2 - sum_f |e_f|^2), from sums, squares and a difference in any usual
// order, into one Fm op (times 2c where c is not one half).
#include <utility>

#include "plan/analysis/form.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

const PlanOp* inner_producer(const Plan& p, const Index& ix, int32_t v) {
  const int32_t i = ix.producer[static_cast<size_t>(v)];
  return i < 0 ? nullptr : &p.ops[static_cast<size_t>(i)];
}

bool is_reduce(const PlanOp* op, kernels::ReduceKind kind) {
  return op && op->kind == OpKind::kReduce && op->inputs[1] < 0 &&
         std::get<kernels::ReduceAttrs>(op->attrs).kind == kind;
}

/// The value whose square `v` is, or -1.
int32_t square_of(const PlanOp* op) {
  if (!op) return -1;
  if (op->kind == OpKind::kUnary) {
    const auto& a = std::get<kernels::UnaryAttrs>(op->attrs);
    return a.kind == kernels::UnaryKind::kPow && a.a == 2.0f ? op->inputs[0] : -1;
  }
  if (op->kind != OpKind::kBinary ||
      std::get<kernels::BinaryAttrs>(op->attrs).kind != kernels::BinaryKind::kMul)
    return -1;
  return op->inputs[0] == op->inputs[1] ? op->inputs[0] : -1;
}

/// Steps back over unmasked sums whose result nothing else reads, and views that only change dims.
int32_t peel_sums(const Plan& p, const Index& ix, int32_t v) {
  for (;;) {
    const PlanOp* op = inner_producer(p, ix, v);
    const bool reshape = op && op->kind == OpKind::kView &&
                         std::get<kernels::ViewAttrs>(op->attrs).kind == kernels::ViewKind::kReshape;
    if (!is_reduce(op, kernels::ReduceKind::kSum) && !reshape) return v;
    v = op->inputs[0];
  }
}

/// v = |S|^2 summed over the vector, or its elements: gives S.
int32_t squared_vector(const Plan& p, const Index& ix, int32_t v) {
  const int32_t inner = peel_sums(p, ix, v);
  const PlanOp* op = inner_producer(p, ix, inner);
  if (is_reduce(op, kernels::ReduceKind::kSumSq)) return op->inputs[0];
  return square_of(op);
}

/// The value behind reshapes.
int32_t flat_of(const Plan& p, const Index& ix, int32_t v) {
  for (;;) {
    const PlanOp* op = inner_producer(p, ix, v);
    const bool reshape = op && op->kind == OpKind::kView &&
                         std::get<kernels::ViewAttrs>(op->attrs).kind == kernels::ViewKind::kReshape;
    if (!reshape) return v;
    v = op->inputs[0];
  }
}

struct Match {
  int32_t e = -1;  // [F, D]
  int64_t fields = 0;
  int64_t dim = 0;
};

/// a = (square of) the sum over fields of E, b = the sum of squares of E; both over the same E.
bool match_difference(const Plan& p, const Index& ix, int32_t a, int32_t b, Match& m) {
  const int32_t s = squared_vector(p, ix, a);
  if (s < 0) return false;
  const PlanOp* sum = inner_producer(p, ix, s);
  if (!is_reduce(sum, kernels::ReduceKind::kSum)) return false;
  m.e = sum->inputs[0];
  const Dims& e = value_of(p, m.e).dims;
  if (e.rank != 2 || std::get<kernels::ReduceAttrs>(sum->attrs).axis != 0) return false;
  m.fields = e.d[0];
  m.dim = e.d[1];
  const int32_t squares = squared_vector(p, ix, b);
  return squares >= 0 && flat_of(p, ix, squares) == flat_of(p, ix, m.e);
}

/// From the difference forward through scalings and sums to one element; gives the op that ends it and the
/// total factor.
int32_t follow(const Plan& p, const Index& ix, int32_t v, double* factor) {
  int32_t end = -1;
  for (;;) {
    if (value_of(p, v).dims.size() == 1) end = v;
    if (!ix.single_use(v)) return end;
    const PlanOp& op = p.ops[static_cast<size_t>(ix.users[static_cast<size_t>(v)][0])];
    double c = 0;
    if (is_reduce(&op, kernels::ReduceKind::kSum)) {
      c = 1;
    } else if (op.kind == OpKind::kUnary) {
      const auto& a = std::get<kernels::UnaryAttrs>(op.attrs);
      if (a.kind != kernels::UnaryKind::kAffine || op.params[0] >= 0 || op.params[1] >= 0 || a.b != 0)
        return end;
      c = a.a;
    } else if (op.kind == OpKind::kBinary &&
               std::get<kernels::BinaryAttrs>(op.attrs).kind == kernels::BinaryKind::kMul) {
      const int32_t other = op.inputs[0] == v ? op.inputs[1] : op.inputs[0];
      if (!scalar_const(p, other, &c) || value_of(p, op.outputs[0]).dims.size() != value_of(p, v).dims.size())
        return end;
    } else {
      return end;
    }
    if (end >= 0 && is_reduce(&op, kernels::ReduceKind::kSum) == false && *factor == 0.5) return end;
    *factor *= c;
    v = op.outputs[0];
  }
}

void emit(Plan& p, const Index& ix, const Match& m, int32_t end, double factor) {
  PlanOp fm;
  PlanOp& last = p.ops[static_cast<size_t>(ix.producer[static_cast<size_t>(end)])];
  fm.kind = OpKind::kFm;
  fm.name = last.name;
  fm.module = last.module;
  fm.attrs = kernels::FmAttrs{m.fields, m.dim};
  fm.inputs = {m.e};
  const bool half = factor == 0.5;
  fm.outputs = {half ? end : add_value(p, last.name + "/fm", value_of(p, end).dims, value_of(p, end).space)};
  const int32_t raw = fm.outputs[0];
  p.notes.push_back("fm: " + std::to_string(m.fields) + " fields of " + std::to_string(m.dim) + " in one op");
  last = std::move(fm);
  if (half) return;
  PlanOp scale;
  scale.kind = OpKind::kUnary;
  scale.name = p.values[static_cast<size_t>(end)].name;
  scale.attrs = kernels::UnaryAttrs{kernels::UnaryKind::kAffine, static_cast<float>(2 * factor), 0};
  scale.inputs = {raw};
  scale.outputs = {end};
  scale.params = {-1, -1, -1};
  p.ops.push_back(std::move(scale));
}

}  // namespace

Result<Plan> recognise_fm(Plan p) {
  const Index ix = index_of(p);
  for (size_t i = 0; i < p.ops.size(); ++i) {
    const PlanOp& op = p.ops[i];
    if (op.kind != OpKind::kBinary ||
        std::get<kernels::BinaryAttrs>(op.attrs).kind != kernels::BinaryKind::kSub)
      continue;
    Match m;
    if (!match_difference(p, ix, op.inputs[0], op.inputs[1], m)) continue;
    if (value_of(p, op.inputs[0]).dims.size() != value_of(p, op.inputs[1]).dims.size()) continue;
    double factor = 1;
    const int32_t end = follow(p, ix, op.outputs[0], &factor);
    if (end < 0 || value_of(p, m.e).space == RowSpace::kConstant) continue;
    emit(p, ix, m, end, factor);
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
