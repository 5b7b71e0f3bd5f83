// Two towers: <u, W h + b> = <W^T u, h> + <b, u>. The layer that ends an item's side is multiplied with the
// user's vector once per user, and what is left for an item is a dot product with the layer's input. Without
// a shared part the product of W^T and u takes the place of that of W and h: as many multiply-adds, and both
// forms have the same bits.
#include <utility>

#include "plan/passes/share_rows.hpp"

namespace dpi::plan {
namespace {

constexpr int64_t kLeastOutputs = 4;  // of the layer: with fewer it is hardly more work than the dot

const PlanOp* made_by(const Plan& p, const Index& ix, int32_t v, OpKind kind) {
  const int32_t i = v < 0 ? -1 : ix.producer[static_cast<size_t>(v)];
  if (i < 0 || !ix.single_use(v) || p.ops[static_cast<size_t>(i)].kind != kind) return nullptr;
  return &p.ops[static_cast<size_t>(i)];
}

/// The dot product of a user's vector with a layer's result.
struct Dot {
  size_t sum = 0;                 // the op that ends it
  int32_t user = -1;              // on shared rows
  const PlanOp* layer = nullptr;  // of item rows
};

bool turns(const Plan& p, const PlanOp& layer) {
  const auto& a = std::get<kernels::LinearAttrs>(layer.attrs);
  const PlanValue& x = value_of(p, layer.inputs[0]);
  return a.groups == 1 && a.axis == kernels::LinearAxis::kLast && layer.inputs[1] < 0 &&
         x.space == RowSpace::kItem && x.dims.rank == 1 &&
         value_of(p, layer.outputs[0]).dims.size() >= kLeastOutputs;
}

bool find_dot(const Plan& p, const Index& ix, size_t at, Dot* dot) {
  const PlanOp& sum = p.ops[at];
  if (sum.kind != OpKind::kReduce || sum.inputs[1] >= 0) return false;
  if (std::get<kernels::ReduceAttrs>(sum.attrs).kind != kernels::ReduceKind::kSum) return false;
  const PlanOp* mul = made_by(p, ix, sum.inputs[0], OpKind::kBinary);
  if (mul == nullptr || std::get<kernels::BinaryAttrs>(mul->attrs).kind != kernels::BinaryKind::kMul)
    return false;
  for (size_t k = 0; k < 2; ++k) {
    const int32_t user = repeated_value(p, ix, mul->inputs[k]);
    const PlanOp* layer = made_by(p, ix, mul->inputs[1 - k], OpKind::kLinear);
    if (user < 0 || layer == nullptr || !turns(p, *layer)) continue;
    if (!(value_of(p, user).dims == value_of(p, layer->outputs[0]).dims)) continue;
    *dot = {at, user, layer};
    return true;
  }
  return false;
}

int32_t add_layer(Plan& p, const std::string& name, int32_t x, int64_t out, std::vector<float> weight) {
  PlanOp op;
  op.kind = OpKind::kLinear;
  op.name = name;
  op.attrs = kernels::LinearAttrs{};
  const int64_t in = value_of(p, x).dims.size();
  op.inputs = {x, -1};
  op.params = {add_param(p, name + ".weight", dims_of({out, in}), std::move(weight)), -1};
  op.outputs = {add_value(p, name, dims_of({out}), value_of(p, x).space)};
  p.ops.push_back(op);
  return op.outputs[0];
}

std::vector<float> transposed(const PlanParam& w) {
  const int64_t out = w.dims.d[0], in = w.dims.d[1];
  std::vector<float> t(w.data.size());
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t k = 0; k < in; ++k)
      t[static_cast<size_t>(k * out + o)] = w.data[static_cast<size_t>(o * in + k)];
  }
  return t;
}

int32_t add_binary(Plan& p, kernels::BinaryKind kind, const std::string& name, int32_t x, int32_t y) {
  PlanOp op;
  op.kind = OpKind::kBinary;
  op.name = name;
  op.attrs = kernels::BinaryAttrs{kind};
  op.inputs = {x, y};
  op.outputs = {add_value(p, name, value_of(p, x).dims, value_of(p, x).space)};
  p.ops.push_back(op);
  return op.outputs[0];
}

void turn(Plan& p, RowJoiner& rows, const Dot& dot) {
  const PlanOp layer = *dot.layer;
  PlanOp sum = p.ops[dot.sum];
  const int32_t h = layer.inputs[0];
  const int32_t turned = add_layer(p, layer.name + "/turned", dot.user, value_of(p, h).dims.size(),
                                   transposed(param_of(p, layer.params[0])));
  sum.inputs[0] = add_binary(p, kernels::BinaryKind::kMul, layer.name + "/product", h, rows.repeat(turned));
  if (layer.params[1] >= 0) {
    const int32_t bias = add_layer(p, layer.name + "/bias", dot.user, 1, param_of(p, layer.params[1]).data);
    const int32_t whole = sum.outputs[0];
    sum.outputs = {add_value(p, sum.name + "/product", value_of(p, whole).dims, RowSpace::kItem)};
    add_binary(p, kernels::BinaryKind::kAdd, sum.name, sum.outputs[0], rows.repeat(bias));
    p.ops.back().outputs = {whole};
  }
  p.notes.push_back("shared: '" + layer.name + "' is multiplied with the user's vector, once per user");
  p.ops[dot.sum] = std::move(sum);
}

}  // namespace

Result<Plan> turn_dot(Plan p) {
  const Index ix = index_of(p);
  RowJoiner rows(p);
  const size_t n = p.ops.size();
  for (size_t i = 0; i < n; ++i) {
    Dot dot;
    if (find_dot(p, ix, i, &dot)) turn(p, rows, dot);
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
