// A sum of rows with a weight each (experts under a gate, values under attention) is one product: weights
// [k, 1] times x [k, n], summed over k, has no [k, n] in between that is written and read again.
#include <utility>

#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

bool is_plain_sum(const Plan& p, const PlanOp& op) {
  if (op.kind != OpKind::kReduce || (op.inputs.size() > 1 && op.inputs[1] >= 0)) return false;
  const auto& a = std::get<kernels::ReduceAttrs>(op.attrs);
  return a.kind == kernels::ReduceKind::kSum && a.axis == 0 && value_of(p, op.inputs[0]).dims.rank == 2;
}

/// The product that alone makes what the sum adds up; null if it is none.
PlanOp* product_of(Plan& p, const Index& ix, int32_t v) {
  const int32_t i = ix.producer[static_cast<size_t>(v)];
  if (i < 0 || !ix.single_use(v)) return nullptr;
  PlanOp& op = p.ops[static_cast<size_t>(i)];
  if (op.kind != OpKind::kBinary) return nullptr;
  return std::get<kernels::BinaryAttrs>(op.attrs).kind == kernels::BinaryKind::kMul ? &op : nullptr;
}

/// Which operand has one number a row, the other all of its elements; -1: neither.
int weights_of(const Plan& p, const PlanOp& mul) {
  const PlanValue& z = value_of(p, mul.outputs[0]);
  for (const int side : {0, 1}) {
    const PlanValue& w = value_of(p, mul.inputs[static_cast<size_t>(side)]);
    const PlanValue& x = value_of(p, mul.inputs[static_cast<size_t>(1 - side)]);
    const bool fits = w.dims == dims_of({z.dims.d[0], 1}) && x.dims == z.dims;
    if (fits && w.space == z.space && x.space == z.space) return side;
  }
  return -1;
}

/// Adds the view from the product's [1, n] to the sum's dims.
void make_product(Plan& p, PlanOp& mul, PlanOp& sum, int side) {
  const PlanValue to = value_of(p, sum.outputs[0]);
  PlanOp product;
  product.kind = OpKind::kMatMul;
  product.name = sum.name;
  product.module = sum.module;
  kernels::MatMulAttrs attrs;
  attrs.trans_a = 1;
  product.attrs = attrs;
  product.inputs = {mul.inputs[static_cast<size_t>(side)], mul.inputs[static_cast<size_t>(1 - side)]};
  product.outputs = {add_value(p, to.name + "/row", dims_of({1, to.dims.size()}), to.space)};
  kernels::ViewAttrs flat;
  flat.kind = kernels::ViewKind::kReshape;
  flat.dims = to.dims;
  sum.kind = OpKind::kView;
  sum.attrs = flat;
  sum.inputs = product.outputs;
  sum.params.clear();
  mul = std::move(product);
}

}  // namespace

Result<Plan> recognise_mixture(Plan p) {
  const Index ix = index_of(p);
  int found = 0;
  for (PlanOp& op : p.ops) {
    if (!is_plain_sum(p, op)) continue;
    PlanOp* mul = product_of(p, ix, op.inputs[0]);
    const int side = mul == nullptr || value_of(p, op.inputs[0]).dims.size() == 0 ? -1 : weights_of(p, *mul);
    if (side < 0) continue;
    make_product(p, *mul, op, side);
    ++found;
  }
  if (found > 0) p.notes.push_back("mixtures: " + std::to_string(found) + " weighted sums are products");
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
