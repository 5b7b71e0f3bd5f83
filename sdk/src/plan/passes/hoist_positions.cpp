// Target attention's first layer with a history of the user: in [W_k k + W_p (q k)] + W_q q, as fold_target
// leaves it, the part of k has nothing of the item. It is multiplied once per user and position, on shared
// rows, and added where the items' product ends (Linear's `shared`). A request without a shared part takes
// the same products in the same order, each row with its own user, so both forms have the same bits.
#include <algorithm>
#include <utility>

#include "plan/passes/share_rows.hpp"

namespace dpi::plan {
namespace {

constexpr int64_t kLeastSharedColumns = 4;  // fewer cost less than what they give, read again for each item

/// A value side by side with others along the last axis.
struct ConcatPart {
  int32_t value = -1;  // in its own row space
  int64_t from = 0;    // column of the layer's input
  int64_t width = 0;
};

struct PositionParts {
  std::vector<ConcatPart> shared, items;
  int64_t shared_width = 0;
};

bool reads_positions(const Plan& p, const PlanOp& op) {
  if (op.kind != OpKind::kLinear || (op.inputs.size() > 2 && op.inputs[2] >= 0)) return false;
  const auto& a = std::get<kernels::LinearAttrs>(op.attrs);
  const Dims& x = value_of(p, op.inputs[0]).dims;
  return a.groups == 1 && a.axis == kernels::LinearAxis::kLast && x.size() > x.at(-1) &&
         value_of(p, op.outputs[0]).space == RowSpace::kItem;
}

PositionParts positions_of(const Plan& p, const Index& ix, int32_t x) {
  const int32_t at = ix.producer[static_cast<size_t>(x)];
  const PlanOp* made = at < 0 ? nullptr : &p.ops[static_cast<size_t>(at)];
  std::vector<int32_t> values = {x};
  if (made != nullptr && made->kind == OpKind::kConcat && ix.single_use(x) &&
      std::get<kernels::ConcatAttrs>(made->attrs).axis == value_of(p, x).dims.rank - 1)
    values = made->inputs;
  PositionParts positions;
  int64_t from = 0;
  for (const int32_t v : values) {
    const int64_t width = value_of(p, v).dims.at(-1);
    const int32_t user = repeated_value(p, ix, v);
    (user < 0 ? positions.items : positions.shared).push_back({user < 0 ? v : user, from, width});
    positions.shared_width += user < 0 ? 0 : width;
    from += width;
  }
  return positions;
}

/// The pieces as one value [positions.., width].
int32_t join(Plan& p, const std::string& name, const std::vector<ConcatPart>& pieces) {
  if (pieces.size() == 1) return pieces[0].value;
  PlanOp op;
  Dims dims = value_of(p, pieces[0].value).dims;
  dims.d[dims.rank - 1] = 0;
  for (const ConcatPart& piece : pieces) {
    op.inputs.push_back(piece.value);
    dims.d[dims.rank - 1] += piece.width;
  }
  op.kind = OpKind::kConcat;
  op.name = name;
  op.attrs = kernels::ConcatAttrs{dims.rank - 1};
  op.outputs = {add_value(p, name, dims, value_of(p, pieces[0].value).space)};
  p.ops.push_back(op);
  return op.outputs[0];
}

/// These columns of a weight [out, in].
int32_t add_weight(Plan& p, const std::string& name, int32_t weight, const std::vector<ConcatPart>& pieces) {
  const PlanParam& w = param_of(p, weight);
  const int64_t out = w.dims.d[0], in = w.dims.d[1];
  std::vector<float> taken;
  for (int64_t o = 0; o < out; ++o) {
    for (const ConcatPart& piece : pieces) {
      const float* from = w.data.data() + o * in + piece.from;
      taken.insert(taken.end(), from, from + piece.width);
    }
  }
  const Dims dims = dims_of({out, static_cast<int64_t>(taken.size()) / out});
  return add_param(p, name, dims, std::move(taken));
}

void split_positions(Plan& p, size_t at, const PositionParts& positions) {
  PlanOp layer = p.ops[at];
  PlanOp user = layer;
  user.name = layer.name + "/shared";
  user.inputs = {join(p, user.name + "_places", positions.shared)};
  user.params = {add_weight(p, user.name + ".weight", layer.params[0], positions.shared), -1};
  user.outputs = {add_value(p, user.name, value_of(p, layer.outputs[0]).dims, RowSpace::kShared)};
  std::vector<ConcatPart> kept = positions.items;  // and behind them what stands in every position
  const int32_t once = layer.inputs.size() > 1 ? layer.inputs[1] : -1;
  const int64_t in = param_of(p, layer.params[0]).dims.d[1];
  const int64_t n_once = once < 0 ? 0 : value_of(p, once).dims.size();
  if (once >= 0) kept.push_back({once, in - n_once, n_once});
  layer.params[0] = add_weight(p, layer.name + ".item_weight", layer.params[0], kept);
  layer.inputs = {join(p, layer.name + "/item_places", positions.items), once, user.outputs[0]};
  p.notes.push_back("shared: " + std::to_string(positions.shared_width) + " columns of every place of '" +
                    layer.name + "' are multiplied once per user");
  p.ops[at] = std::move(layer);
  p.ops.push_back(std::move(user));
}

}  // namespace

Result<Plan> hoist_positions(Plan p) {
  const Index ix = index_of(p);
  const size_t n = p.ops.size();
  for (size_t i = 0; i < n; ++i) {
    if (!reads_positions(p, p.ops[i])) continue;
    const PositionParts positions = positions_of(p, ix, p.ops[i].inputs[0]);
    if (positions.shared_width >= kLeastSharedColumns && !positions.items.empty())
      split_positions(p, i, positions);
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
