// Neighbouring Unary, Binary and Where ops into one Elementwise op (DPIFrame's fusion of non-GEMM operators).
#include <algorithm>
#include <utility>

#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

size_t n_operands(const PlanOp& op) {
  return op.kind == OpKind::kUnary ? 1 : op.kind == OpKind::kBinary ? 2 : 3;
}

/// One that computes all of its positions (count_positions).
bool is_elementwise(const PlanOp& op) {
  const bool may = op.kind == OpKind::kUnary || op.kind == OpKind::kBinary || op.kind == OpKind::kWhere;
  return may && op.inputs.size() == n_operands(op);
}

struct Group {
  std::vector<int32_t> ops;     // ascending
  std::vector<int32_t> inputs;  // values from outside
};

void find_inputs(const Plan& p, const std::vector<char>& member, Group& g, const Index& ix) {
  g.inputs.clear();
  for (int32_t i : g.ops) {
    const PlanOp& op = p.ops[static_cast<size_t>(i)];
    for (size_t k = 0; k < n_operands(op); ++k) {
      const int32_t v = op.inputs[k];
      const int32_t from = ix.producer[static_cast<size_t>(v)];
      if (from >= 0 && member[static_cast<size_t>(from)]) continue;
      if (std::find(g.inputs.begin(), g.inputs.end(), v) == g.inputs.end()) g.inputs.push_back(v);
    }
  }
}

/// All readers of v are in the group, and v has the dims and rows of the group's result.
bool absorbable(const Plan& p, const Index& ix, const std::vector<char>& member, int32_t v,
                const PlanValue& result) {
  const int32_t from = ix.producer[static_cast<size_t>(v)];
  if (from < 0 || !is_elementwise(p.ops[static_cast<size_t>(from)]) ||
      ix.head_uses[static_cast<size_t>(v)] > 0)
    return false;
  const PlanValue& value = value_of(p, v);
  if (!(value.dims == result.dims) || value.space != result.space) return false;
  const auto& users = ix.users[static_cast<size_t>(v)];
  return std::all_of(users.begin(), users.end(),
                     [&](int32_t u) { return member[static_cast<size_t>(u)] != 0; });
}

Group grow(const Plan& p, const Index& ix, int32_t root, std::vector<char>& member) {
  Group g{{root}, {}};
  const PlanValue& result = value_of(p, p.ops[static_cast<size_t>(root)].outputs[0]);
  member[static_cast<size_t>(root)] = 1;
  find_inputs(p, member, g, ix);
  for (bool grown = true; grown && g.ops.size() < static_cast<size_t>(kernels::kMaxElementwiseSteps);) {
    grown = false;
    for (int32_t v : g.inputs) {
      if (!absorbable(p, ix, member, v, result)) continue;
      const int32_t from = ix.producer[static_cast<size_t>(v)];
      Group bigger = g;
      bigger.ops.push_back(from);
      std::sort(bigger.ops.begin(), bigger.ops.end());
      member[static_cast<size_t>(from)] = 1;
      find_inputs(p, member, bigger, ix);
      if (bigger.inputs.size() > static_cast<size_t>(kernels::kMaxElementwiseInputs)) {
        member[static_cast<size_t>(from)] = 0;
        continue;
      }
      g = std::move(bigger);
      grown = true;
      break;
    }
  }
  return g;
}

void emit(Plan& p, const Group& g) {
  PlanOp out;
  kernels::ElementwiseAttrs e;
  e.n_inputs = static_cast<int32_t>(g.inputs.size());
  std::vector<int32_t> values = g.inputs;  // value held by each register
  for (int32_t i : g.ops) {
    const PlanOp& op = p.ops[static_cast<size_t>(i)];
    auto reg = [&](size_t k) {
      return static_cast<int32_t>(std::find(values.begin(), values.end(), op.inputs[k]) - values.begin());
    };
    kernels::ElementwiseStep& s = e.steps[e.n_steps++];
    s.x = reg(0);
    if (op.kind == OpKind::kBinary) {
      s.kind = kernels::StepKind::kBinary;
      s.binary = std::get<kernels::BinaryAttrs>(op.attrs).kind;
      s.y = reg(1);
    } else if (op.kind == OpKind::kWhere) {
      s.kind = kernels::StepKind::kWhere;
      s.y = reg(1);
      s.z = reg(2);
    } else {
      s.unary = std::get<kernels::UnaryAttrs>(op.attrs);
      int32_t n = 3;
      while (n > 0 && op.params[static_cast<size_t>(n - 1)] < 0) --n;
      if (n > 0) {
        s.param = static_cast<int32_t>(out.params.size());
        s.n_params = n;
        out.params.insert(out.params.end(), op.params.begin(), op.params.begin() + n);
      }
    }
    values.push_back(op.outputs[0]);
  }
  PlanOp& last = p.ops[static_cast<size_t>(g.ops.back())];
  out.kind = OpKind::kElementwise;
  out.name = last.name;
  out.module = last.module;
  out.attrs = e;
  out.inputs = g.inputs;
  out.outputs = last.outputs;
  for (int32_t i : g.ops) kill(p.ops[static_cast<size_t>(i)]);
  p.ops[static_cast<size_t>(g.ops.back())] = std::move(out);
}

}  // namespace

Result<Plan> fuse_elementwise(Plan p) {
  const Index ix = index_of(p);
  std::vector<char> member(p.ops.size(), 0);
  std::vector<Group> groups;
  for (size_t i = p.ops.size(); i-- > 0;) {
    if (member[i] || !is_elementwise(p.ops[i])) continue;
    if (value_of(p, p.ops[i].outputs[0]).space == RowSpace::kConstant) continue;
    std::vector<char> mine(p.ops.size(), 0);
    Group g = grow(p, ix, static_cast<int32_t>(i), mine);
    for (int32_t k : g.ops) member[static_cast<size_t>(k)] = 1;
    if (g.ops.size() > 1) groups.push_back(std::move(g));
  }
  for (const Group& g : groups) emit(p, g);
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
