#include "plan/analysis/pieces.hpp"

#include "plan/analysis/form.hpp"

namespace dpi::plan {
namespace {

void collect(const Plan& p, const Index& ix, int32_t v, std::vector<int32_t>& out) {
  const int32_t i = ix.producer[static_cast<size_t>(v)];
  const PlanOp* op = i < 0 ? nullptr : &p.ops[static_cast<size_t>(i)];
  if (op && op->kind == OpKind::kView &&
      std::get<kernels::ViewAttrs>(op->attrs).kind == kernels::ViewKind::kReshape) {
    collect(p, ix, op->inputs[0], out);
    return;
  }
  if (op && op->kind == OpKind::kConcat &&
      leading_ones(value_of(p, v).dims, std::get<kernels::ConcatAttrs>(op->attrs).axis)) {
    for (int32_t piece : op->inputs) collect(p, ix, piece, out);
    return;
  }
  out.push_back(v);
}

}  // namespace

std::vector<int32_t> pieces_of(const Plan& plan, const Index& index, int32_t v) {
  std::vector<int32_t> out;
  collect(plan, index, v, out);
  return out;
}

bool numeric_projection(const Plan& plan, const PlanOp& op) {
  if (op.kind != OpKind::kLinear) return false;
  const auto& a = std::get<kernels::LinearAttrs>(op.attrs);
  const PlanValue& x = value_of(plan, op.inputs[0]);
  return a.groups == 1 && a.axis == kernels::LinearAxis::kLast && x.storage == Storage::kInput &&
         !x.is_bags && x.dims.rank == 1 && x.dims.size() == 1;
}

bool same_pooling(const kernels::EmbedAttrs& a, const kernels::EmbedAttrs& b) {
  if (a.pooling != b.pooling) return false;
  if (a.pooling == kernels::Pooling::kSingle) return true;
  const bool same_eps = a.pooling != kernels::Pooling::kMean || a.eps == b.eps;
  const bool same_empty = a.pooling != kernels::Pooling::kMax || a.empty == b.empty;
  return same_eps && same_empty && a.mask == b.mask && a.pad_side == b.pad_side && a.pad_id == b.pad_id &&
         a.max_len == b.max_len;
}

}  // namespace dpi::plan
