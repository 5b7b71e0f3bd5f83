// The products of every two fields (PNN, DLRM, FwFM): a square MatMul of which exactly the entries on one
// side of the diagonal are selected, row by row, into one MatMul of that part.
#include <utility>

#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

using kernels::MatMulPart;

const PlanOp* only_view(const Plan& p, const Index& ix, int32_t v, kernels::ViewKind kind) {
  if (!ix.single_use(v)) return nullptr;
  const PlanOp& op = p.ops[static_cast<size_t>(ix.users[static_cast<size_t>(v)][0])];
  if (op.kind != OpKind::kView || std::get<kernels::ViewAttrs>(op.attrs).kind != kind) return nullptr;
  return &op;
}

/// True if the positions in a flat [m, m] are those of a part, all of them, in order.
bool selects(const std::vector<int64_t>& positions, int64_t m, MatMulPart part) {
  if (static_cast<int64_t>(positions.size()) != m * (m - 1) / 2) return false;
  size_t at = 0;
  for (int64_t i = 0; i < m; ++i) {
    const bool upper = part == MatMulPart::kUpper;
    for (int64_t j = upper ? i + 1 : 0; j < (upper ? m : i); ++j) {
      if (positions[at++] != i * m + j) return false;
    }
  }
  return true;
}

bool is_square(const Plan& p, const PlanOp& op) {
  if (op.kind != OpKind::kMatMul || std::get<kernels::MatMulAttrs>(op.attrs).part != MatMulPart::kAll)
    return false;
  const Dims& y = value_of(p, op.outputs[0]).dims;
  return y.rank == 2 && y.d[0] == y.d[1] && y.d[0] > 1 && value_of(p, op.inputs[0]).dims.rank == 2 &&
         value_of(p, op.inputs[1]).dims.rank == 2;
}

void try_product(Plan& p, const Index& ix, PlanOp& op) {
  const int64_t m = value_of(p, op.outputs[0]).dims.d[0];
  const PlanOp* flat = only_view(p, ix, op.outputs[0], kernels::ViewKind::kReshape);
  if (!flat || value_of(p, flat->outputs[0]).dims.rank != 1) return;
  const PlanOp* pick = only_view(p, ix, flat->outputs[0], kernels::ViewKind::kIndexSelect);
  if (!pick) return;
  const bool upper = selects(pick->indices, m, MatMulPart::kUpper);
  if (!upper && !selects(pick->indices, m, MatMulPart::kLower)) return;
  std::get<kernels::MatMulAttrs>(op.attrs).part = upper ? MatMulPart::kUpper : MatMulPart::kLower;
  op.outputs = pick->outputs;
  kill(p.ops[static_cast<size_t>(flat - p.ops.data())]);
  kill(p.ops[static_cast<size_t>(pick - p.ops.data())]);
  p.notes.push_back("pairs: '" + op.name + "' of " + std::to_string(m) + " fields");
}

}  // namespace

Result<Plan> recognise_pairs(Plan p) {
  const Index ix = index_of(p);
  for (PlanOp& op : p.ops) {
    if (is_square(p, op)) try_product(p, ix, op);
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
