// DCN's cross layers: x_{l+1} = x0 (w . x_l) + b + x_l, from Linear(n -> 1), a product and two sums in any
// order, into one CrossV1 op for all layers that follow each other.
#include <utility>

#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

struct CrossLayer {
  int32_t x0 = -1;
  int32_t x = -1;  // input of the layer
  int32_t out = -1;
  int32_t weight = -1;  // param
  int32_t bias = -1;    // param, -1 = none
};

bool is_binary(const PlanOp* op, kernels::BinaryKind kind) {
  return op && std::get<kernels::BinaryAttrs>(op->attrs).kind == kind;
}

/// The summands of an add tree whose inner nodes nothing else reads; at most 4.
void summands(const Plan& p, const Index& ix, int32_t v, bool root, std::vector<int32_t>& out) {
  const PlanOp* op = producer_of(p, ix, v, OpKind::kBinary);
  if (out.size() > 4 || !is_binary(op, kernels::BinaryKind::kAdd) || (!root && !ix.single_use(v))) {
    out.push_back(v);
    return;
  }
  summands(p, ix, op->inputs[0], false, out);
  summands(p, ix, op->inputs[1], false, out);
}

/// v = x0 * (w . x): fills x0, x and weight.
bool match_product(const Plan& p, const Index& ix, int32_t v, int64_t n, CrossLayer& layer) {
  const PlanOp* mul = producer_of(p, ix, v, OpKind::kBinary);
  if (!is_binary(mul, kernels::BinaryKind::kMul) || !ix.single_use(v)) return false;
  for (int side = 0; side < 2; ++side) {
    const int32_t gate = mul->inputs[static_cast<size_t>(side)];
    const int32_t x0 = mul->inputs[static_cast<size_t>(1 - side)];
    const PlanOp* linear = producer_of(p, ix, gate, OpKind::kLinear);
    if (!linear || !ix.single_use(gate) || linear->params[1] >= 0) continue;
    if (value_of(p, gate).dims.size() != 1 || value_of(p, x0).dims.size() != n) continue;
    if (param_of(p, linear->params[0]).dims.size() != n) continue;
    layer.x0 = x0;
    layer.x = linear->inputs[0];
    layer.weight = linear->params[0];
    return true;
  }
  return false;
}

bool match_layer(const Plan& p, const Index& ix, int32_t out, CrossLayer& layer) {
  const Dims& dims = value_of(p, out).dims;
  if (dims.rank != 1) return false;
  std::vector<int32_t> terms;
  summands(p, ix, out, true, terms);
  if (terms.size() < 2 || terms.size() > 3) return false;
  layer.out = out;
  for (size_t k = 0; k < terms.size(); ++k) {
    if (!match_product(p, ix, terms[k], dims.size(), layer)) continue;
    bool residual = false;
    for (size_t j = 0; j < terms.size(); ++j) {
      if (j == k) continue;
      if (terms[j] == layer.x && !residual) {
        residual = true;
      } else if (const_data(p, terms[j]) && value_of(p, terms[j]).dims.size() == dims.size()) {
        layer.bias = value_of(p, terms[j]).param;
      } else {
        return false;
      }
    }
    return residual && value_of(p, layer.x).space == value_of(p, layer.x0).space &&
           value_of(p, layer.x0).space != RowSpace::kConstant;
  }
  return false;
}

/// x_l may be read by its own layer only: by the Linear and by the sum.
bool inner_value(const Index& ix, int32_t v) {
  return ix.users[static_cast<size_t>(v)].size() == 2 && ix.head_uses[static_cast<size_t>(v)] == 0;
}

void emit(Plan& p, const Index& ix, const std::vector<CrossLayer>& layers) {
  const int64_t n = value_of(p, layers[0].x0).dims.size();
  std::vector<float> w, b;
  for (const CrossLayer& l : layers) {
    const std::vector<float>& row = param_of(p, l.weight).data;
    w.insert(w.end(), row.begin(), row.end());
    if (l.bias < 0) {
      b.insert(b.end(), static_cast<size_t>(n), 0.0f);
    } else {
      const std::vector<float>& bias = param_of(p, l.bias).data;
      b.insert(b.end(), bias.begin(), bias.end());
    }
  }
  const auto n_layers = static_cast<int64_t>(layers.size());
  PlanOp& last = p.ops[static_cast<size_t>(ix.producer[static_cast<size_t>(layers.back().out)])];
  PlanOp op;
  op.kind = OpKind::kCrossV1;
  op.name = last.name;
  op.module = last.module;
  op.attrs = kernels::CrossV1Attrs{n_layers};
  op.inputs = {layers[0].x0};
  op.outputs = {layers.back().out};
  op.params = {add_param(p, op.name + ".w", dims_of({n_layers, n}), std::move(w)),
               add_param(p, op.name + ".b", dims_of({n_layers, n}), std::move(b))};
  last = std::move(op);
  p.notes.push_back("cross v1: " + std::to_string(n_layers) + " layers of " + std::to_string(n) +
                    " in one op");
}

}  // namespace

Result<Plan> recognise_cross_v1(Plan p) {
  const Index ix = index_of(p);
  std::vector<int32_t> layer_of(p.values.size(), -1);  // by output
  std::vector<char> continued;
  std::vector<CrossLayer> layers;
  for (size_t i = 0; i < p.ops.size(); ++i) {
    CrossLayer l;
    if (!is_binary(p.ops[i].kind == OpKind::kBinary ? &p.ops[i] : nullptr, kernels::BinaryKind::kAdd))
      continue;
    if (!match_layer(p, ix, p.ops[i].outputs[0], l)) continue;
    layer_of[static_cast<size_t>(l.out)] = static_cast<int32_t>(layers.size());
    layers.push_back(l);
    continued.push_back(0);
  }
  auto previous = [&](const CrossLayer& l) {
    const int32_t k = layer_of[static_cast<size_t>(l.x)];
    const bool linked = k >= 0 && layers[static_cast<size_t>(k)].x0 == l.x0 && inner_value(ix, l.x);
    return linked ? k : -1;
  };
  for (const CrossLayer& l : layers) {
    if (const int32_t k = previous(l); k >= 0) continued[static_cast<size_t>(k)] = 1;
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    if (continued[i]) continue;
    std::vector<CrossLayer> stack{layers[i]};
    for (int32_t k = previous(stack[0]); k >= 0; k = previous(stack[0]))
      stack.insert(stack.begin(), layers[static_cast<size_t>(k)]);
    while (!stack.empty() && stack[0].x != stack[0].x0) stack.erase(stack.begin());
    if (stack.empty() || stack.back().out != layers[i].out) continue;
    emit(p, ix, stack);
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
