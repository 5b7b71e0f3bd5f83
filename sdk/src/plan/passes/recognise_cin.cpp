// Compressed interactions (xDeepFM): a Linear over the field axis of all products of two fields, [m, 1, d]
// times [1, n, d], becomes one op that writes no products. Of the products of fields with themselves each is
// there twice: a fold adds their weights up.
#include <utility>

#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

using kernels::ViewKind;

bool is_reshape(const PlanOp* op) {
  return op && op->kind == OpKind::kView &&
         std::get<kernels::ViewAttrs>(op->attrs).kind == ViewKind::kReshape;
}

/// The value whose elements v has in the same order.
int32_t root_of(const Plan& p, const Index& ix, int32_t v) {
  const PlanOp* op = producer_of(p, ix, v);
  while (is_reshape(op)) {
    v = op->inputs[0];
    op = producer_of(p, ix, v);
  }
  return v;
}

/// The product in front of a layer: x is [m, 1, d], y is [1, n, d].
struct Outer {
  int32_t x = -1, y = -1;
  int64_t m = 0, n = 0;
};

bool is_fields(const Plan& p, int32_t v, int axis, RowSpace space) {
  const PlanValue& value = value_of(p, v);
  return value.dims.rank == 3 && value.dims.d[axis] == 1 && value.space == space;
}

bool find_outer(const Plan& p, const Index& ix, const PlanOp& linear, Outer* found) {
  const PlanOp* flat = producer_of(p, ix, linear.inputs[0]);
  if (!is_reshape(flat) || !ix.single_use(flat->outputs[0])) return false;
  const PlanOp* mul = producer_of(p, ix, flat->inputs[0]);
  if (!mul || mul->kind != OpKind::kBinary || !ix.single_use(mul->outputs[0])) return false;
  if (std::get<kernels::BinaryAttrs>(mul->attrs).kind != kernels::BinaryKind::kMul) return false;
  const PlanValue& z = value_of(p, mul->outputs[0]);
  const Dims& rows = value_of(p, linear.inputs[0]).dims;
  if (z.dims.rank != 3 || z.dims.size() == 0 || rows.rank != 2 || rows.d[1] != z.dims.d[2]) return false;
  for (const bool turned : {false, true}) {
    const int32_t x = mul->inputs[turned ? 1 : 0], y = mul->inputs[turned ? 0 : 1];
    if (!is_fields(p, x, 1, z.space) || !is_fields(p, y, 0, z.space)) continue;
    *found = {x, y, z.dims.d[0], z.dims.d[1]};
    return value_of(p, x).dims.d[2] == z.dims.d[2] && value_of(p, y).dims.d[2] == z.dims.d[2];
  }
  return false;
}

/// [out, (i, j)] -> [out, (j, i)].
std::vector<float> turned(const std::vector<float>& w, int64_t m, int64_t n) {
  std::vector<float> to;
  to.reserve(w.size());
  for (size_t map = 0; map < w.size(); map += static_cast<size_t>(m * n)) {
    for (int64_t k = 0; k < m * n; ++k) to.push_back(w[map + static_cast<size_t>(k % m * n + k / m)]);
  }
  return to;
}

/// Pairs i <= j: their weights and those of (j, i) are one.
std::vector<float> one_side(const std::vector<float>& w, int64_t m) {
  std::vector<float> to;
  for (size_t map = 0; map < w.size(); map += static_cast<size_t>(m * m)) {
    const auto at = [&](int64_t i, int64_t j) { return double{w[map + static_cast<size_t>(i * m + j)]}; };
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = i; j < m; ++j)
        to.push_back(static_cast<float>(i == j ? at(i, i) : at(i, j) + at(j, i)));
    }
  }
  return to;
}

/// The op's operands and weight. The kernels take one product a map and field of x, so x has the fewer
/// fields.
void set_operands(Plan& p, const Index& ix, Outer z, bool fold, PlanOp& cin) {
  const PlanParam& weight = param_of(p, cin.params[0]);
  const int64_t out = weight.dims.d[0];
  const std::string name = weight.name;
  if (fold && z.m == z.n && root_of(p, ix, z.x) == root_of(p, ix, z.y)) {
    cin.inputs = {z.x, -1};
    cin.params[0] =
        add_param(p, name + ".pairs", dims_of({out, z.m * (z.m + 1) / 2}), one_side(weight.data, z.m));
    return;
  }
  cin.inputs = {z.x, z.y};
  if (z.m <= z.n) return;
  cin.inputs = {z.y, z.x};
  cin.params[0] = add_param(p, name + ".turned", dims_of({out, z.m * z.n}), turned(weight.data, z.m, z.n));
}

bool plain(const kernels::UnaryAttrs& act) {
  using kernels::UnaryKind;
  return act.kind != UnaryKind::kAffine && act.kind != UnaryKind::kPrelu && act.kind != UnaryKind::kDice;
}

/// The function that alone reads the layer, if it needs no parameters.
PlanOp* function_of(Plan& p, const Index& ix, int32_t v) {
  if (!ix.single_use(v)) return nullptr;
  PlanOp& op = p.ops[static_cast<size_t>(ix.users[static_cast<size_t>(v)][0])];
  return op.kind == OpKind::kUnary && plain(std::get<kernels::UnaryAttrs>(op.attrs)) ? &op : nullptr;
}

bool is_field_layer(const Plan& p, const PlanOp& op) {
  if (op.kind != OpKind::kLinear || value_of(p, op.outputs[0]).dims.rank != 2) return false;
  return std::get<kernels::LinearAttrs>(op.attrs).axis == kernels::LinearAxis::kField;
}

}  // namespace

Result<Plan> recognise_cin(Plan p, bool fold) {
  const Index ix = index_of(p);
  for (PlanOp& op : p.ops) {
    Outer z;
    if (!is_field_layer(p, op) || !find_outer(p, ix, op, &z)) continue;
    op.kind = OpKind::kCin;
    kernels::CinAttrs attrs;
    set_operands(p, ix, z, fold, op);
    if (PlanOp* function = function_of(p, ix, op.outputs[0])) {
      attrs.act = std::get<kernels::UnaryAttrs>(function->attrs);
      op.outputs = function->outputs;
      kill(*function);
    }
    op.attrs = attrs;
    p.notes.push_back("cin: '" + op.name + "' of " + std::to_string(z.m) + " x " + std::to_string(z.n) +
                      " fields");
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
