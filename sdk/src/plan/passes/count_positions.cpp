// Transformer blocks over padded sequences: a position that attention's mask leaves out as a key, and that
// nothing reads but ops which work position by position and, in the end, a product or a sum with the same
// mask, gives nothing to a score. Linear layers, LayerNorm, element-wise ops and attention then compute the
// positions that count and write zeros for the others.
//
// Masks are the same when each of their positions is the same number: one of a Mask op or of a comparison,
// turned around by 1 - x any number of times, or a constant 1 or 0. Only ops that make finite numbers of
// finite ones are passed, so that what is multiplied by 0 in the end is a number.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ops/table.hpp"
#include "plan/analysis/elements.hpp"
#include "plan/analysis/zero_one.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

using kernels::AttentionAttrs;
using kernels::BinaryKind;
using kernels::HeadLayout;
using kernels::SoftmaxMask;
using kernels::UnaryKind;

constexpr size_t kMostMasks = 64;       // attentions that are looked at: what a hostile bundle can ask for
constexpr int kDeepestPadding = 256;    // ops behind one another
constexpr int64_t kSmallWeight = 1024;  // elements; beside the products of fewer, copies are not small
constexpr int64_t kSmallRow = 1024;     // elements; of fewer, looking for positions costs what they take

/// One position of a mask: element `index` of value, or, value < 0, the number `index`; 1 minus it where
/// turned.
struct Position {
  int32_t value = -1;
  int64_t index = 0;
  bool turned = false;

  bool operator==(const Position&) const = default;
};
using Positions = std::vector<Position>;

/// The positions of a mask; nothing where one may be another number than 1 or 0.
std::optional<Positions> positions_of(const Plan& p, const Index& ix, Elements& elements, int32_t v,
                                      int depth = 0) {
  const std::vector<Element>* all = depth < 8 ? elements.of(v) : nullptr;
  if (all == nullptr) return std::nullopt;
  Positions out;
  std::map<int32_t, std::optional<Positions>> turned;  // of values that turn others
  for (const Element& e : *all) {
    if (const std::vector<float>* data = const_data(p, e.value)) {
      const float number = (*data)[static_cast<size_t>(e.index)];
      if (number != 0 && number != 1) return std::nullopt;
      out.push_back({-1, number == 1 ? 1 : 0, false});
      continue;
    }
    const PlanOp* op = producer_of(p, ix, e.value);
    if (op == nullptr || (!gives_bits(*op) && !turns_bits(*op))) return std::nullopt;
    out.push_back({e.value, e.index, false});
    if (!turns_bits(*op)) continue;
    const auto [at, fresh] = turned.try_emplace(e.value);
    if (fresh) at->second = positions_of(p, ix, elements, op->inputs[0], depth + 1);
    const auto& positions = at->second;
    if (!positions.has_value()) return std::nullopt;
    out.back() = (*positions)[static_cast<size_t>(e.index)];
    if (out.back().value < 0)
      out.back().index = 1 - out.back().index;
    else
      out.back().turned = !out.back().turned;
  }
  return out;
}

/// A position of the layout is a row of the value [positions, n].
bool lies_by_position(const Dims& d, const HeadLayout& l, int64_t heads, int64_t positions, int64_t columns) {
  return d.rank == 2 && d.d[0] == positions && l.position == d.d[1] && l.at(heads - 1, 0) + columns <= d.d[1];
}

bool keeps_numbers(UnaryKind kind) {
  switch (kind) {
    case UnaryKind::kExp:
    case UnaryKind::kLog:
    case UnaryKind::kSqrt:
    case UnaryKind::kRsqrt:
    case UnaryKind::kPow:
      return false;
    default:
      return true;
  }
}

/// One mask, and which values nobody reads where it is 0.
class Padding {
 public:
  Padding(const Plan& p, const Index& ix, Elements& elements, Positions mask)
      : p_(p), ix_(ix), elements_(elements), mask_(std::move(mask)) {}

  /// v: [positions, n].
  bool unread(int32_t v) {
    const PlanValue& value = value_of(p_, v);
    if (value.is_bags || value.dims.rank != 2 || value.dims.d[0] != positions()) return false;
    if (ix_.head_uses[static_cast<size_t>(v)] > 0) return false;
    const auto [at, fresh] = known_.try_emplace(v, false);
    if (!fresh || depth_ == kDeepestPadding) return at->second;
    ++depth_;
    bool read = false;
    for (const int32_t i : ix_.users[static_cast<size_t>(v)]) {
      read = read || !leaves_out(p_.ops[static_cast<size_t>(i)], v);
    }
    --depth_;
    return known_[v] = !read;
  }
  /// The op's queries, where they are positions of this mask.
  bool asks_for_nothing(const PlanOp& op) {
    const auto& a = std::get<AttentionAttrs>(op.attrs);
    return masks(op) && a.queries == positions() && !op.outputs.empty() &&
           lies_by_position(value_of(p_, op.outputs[0]).dims, a.y, a.heads, positions(), a.value_dim) &&
           unread(op.outputs[0]);
  }
  bool is_mask(int32_t v) {
    const auto other = positions_of(p_, ix_, elements_, v);
    return other && *other == mask_;
  }

 private:
  int64_t positions() const { return static_cast<int64_t>(mask_.size()); }

  /// Attention that leaves keys out by this mask.
  bool masks(const PlanOp& op) {
    const auto& a = std::get<AttentionAttrs>(op.attrs);
    const bool by_key = a.mask_mode != SoftmaxMask::kNone && a.mask_head == 0 && a.mask_query == 0;
    // A query that reads some of the keys may be left with none: it reads all values then.
    if (a.mean_of_none != 0 && (a.causal != 0 || a.candidates != 0)) return false;
    const bool far = a.mask_mode == SoftmaxMask::kNinf || a.value <= kernels::kFarBelow;
    return by_key && far && a.keys == positions() && is_mask(op.inputs[3]);
  }
  bool attends(const PlanOp& op, int32_t v) {
    const auto& a = std::get<AttentionAttrs>(op.attrs);
    const Dims& d = value_of(p_, v).dims;
    if (a.prefix > 0) return attends_behind(op, v);
    if (!masks(op) || op.inputs[3] == v || (op.inputs.size() > 4 && op.inputs[4] == v)) return false;
    if (op.inputs[0] == v &&
        (!asks_for_nothing(op) || !lies_by_position(d, a.q, a.heads, positions(), a.dim)))
      return false;
    if (op.inputs[1] == v && !lies_by_position(d, a.k, a.heads, positions(), a.dim)) return false;
    return op.inputs[2] != v || lies_by_position(d, a.v, a.heads, positions(), a.value_dim);
  }
  /// Keys and values of v's positions, read by queries that stand behind them.
  bool attends_behind(const PlanOp& op, int32_t v) {
    const auto& a = std::get<AttentionAttrs>(op.attrs);
    const bool others = std::find(op.inputs.begin(), op.inputs.begin() + 5, v) == op.inputs.begin() + 5;
    if (!others || a.mask_mode != SoftmaxMask::kNinf || a.mask_query != 0 || a.mean_of_none != 0)
      return false;
    auto mask = a.prefix == positions() ? positions_of(p_, ix_, elements_, op.inputs[3]) : std::nullopt;
    if (!mask) return false;
    mask->resize(mask_.size());
    return *mask == mask_;
  }
  bool combines(const PlanOp& op, int32_t v) {
    if (!(value_of(p_, op.outputs[0]).dims == value_of(p_, v).dims)) return false;
    const BinaryKind kind = std::get<kernels::BinaryAttrs>(op.attrs).kind;
    if (kind == BinaryKind::kMul && op.inputs[0] != op.inputs[1]) {
      const int32_t other = op.inputs[0] == v ? op.inputs[1] : op.inputs[0];
      if (value_of(p_, other).dims == dims_of({positions(), 1}) && is_mask(other)) return true;
    }
    const bool plain = kind == BinaryKind::kAdd || kind == BinaryKind::kSub || kind == BinaryKind::kMul;
    return plain && unread(op.outputs[0]);
  }
  /// Sums v's positions, each times its position of the mask (recognise_mixture).
  bool weighs(const PlanOp& op, int32_t v) {
    const auto& a = std::get<kernels::MatMulAttrs>(op.attrs);
    return a.trans_a != 0 && a.trans_b == 0 && op.inputs[0] != v &&
           value_of(p_, op.inputs[0]).dims == dims_of({positions(), 1}) && is_mask(op.inputs[0]);
  }
  /// True if the op's outputs do not depend on v's positions where the mask is 0.
  bool leaves_out(const PlanOp& op, int32_t v) {
    if (op.kind == OpKind::kAttention) return attends(op, v);
    if (op.kind == OpKind::kBinary) return combines(op, v);
    if (op.kind == OpKind::kLinear) {
      const auto& a = std::get<kernels::LinearAttrs>(op.attrs);
      return a.groups == 1 && a.axis == kernels::LinearAxis::kLast && op.inputs[0] == v &&
             unread(op.outputs[0]);
    }
    if (op.kind == OpKind::kLayerNorm)
      return std::get<kernels::LayerNormAttrs>(op.attrs).eps > 0 && unread(op.outputs[0]);
    if (op.kind == OpKind::kUnary)
      return keeps_numbers(std::get<kernels::UnaryAttrs>(op.attrs).kind) && unread(op.outputs[0]);
    if (op.kind == OpKind::kMatMul) return weighs(op, v);
    if (op.kind != OpKind::kReduce || op.inputs.size() < 2 || op.inputs[1] < 0 || op.inputs[0] != v)
      return false;
    return std::get<kernels::ReduceAttrs>(op.attrs).axis == 0 && is_mask(op.inputs[1]);
  }

  const Plan& p_;
  const Index& ix_;
  Elements& elements_;
  Positions mask_;
  std::map<int32_t, bool> known_;
  int depth_ = 0;
};

/// True if a position of the mask counts in every row. Without any, a softmax by values is one over all.
bool always_counts(const AttentionAttrs& a, const Positions& mask) {
  if (a.mask_mode == SoftmaxMask::kNinf && a.mean_of_none == 0) return true;
  for (const Position& position : mask) {
    if (position.value < 0 && position.index == 1) return true;
  }
  return false;
}

bool is_elementwise(const PlanOp* op) {
  return op != nullptr &&
         (op->kind == OpKind::kUnary || op->kind == OpKind::kBinary || op->kind == OpKind::kWhere);
}

/// True if fuse_elementwise may join the op with a neighbour: all positions in one pass, not some in two.
bool may_be_joined(const Plan& p, const Index& ix, const PlanOp& op) {
  const int32_t y = op.outputs[0];
  const auto only_reader = [&](int32_t v) -> const PlanOp* {
    const std::vector<int32_t>& users = ix.users[static_cast<size_t>(v)];
    if (users.empty() || !(value_of(p, v).dims == value_of(p, y).dims)) return nullptr;
    const bool one = std::all_of(users.begin(), users.end(), [&](int32_t u) { return u == users[0]; });
    return one ? &p.ops[static_cast<size_t>(users[0])] : nullptr;
  };
  for (const int32_t v : op.inputs) {
    if (only_reader(v) != nullptr && is_elementwise(producer_of(p, ix, v))) return true;
  }
  return is_elementwise(only_reader(y));
}

/// True if the op takes a mask of positions that count, and has none yet.
bool may_skip(const Plan& p, const Index& ix, const PlanOp& op, int32_t mask) {
  if (op.kind != OpKind::kLinear && op.kind != OpKind::kLayerNorm && op.kind != OpKind::kUnary &&
      op.kind != OpKind::kBinary)
    return false;
  const PlanValue& y = value_of(p, op.outputs[0]);
  if (op.inputs.size() == form_of(op.kind).inputs.positions()) return false;
  if (y.space != value_of(p, mask).space) return false;
  if (op.kind == OpKind::kLayerNorm) return true;
  if (is_elementwise(&op)) return y.dims.size() >= kSmallRow && !may_be_joined(p, ix, op);
  const auto& a = std::get<kernels::LinearAttrs>(op.attrs);
  const bool split = std::any_of(op.inputs.begin() + 1, op.inputs.end(), [](int32_t v) { return v >= 0; });
  return a.groups == 1 && a.axis == kernels::LinearAxis::kLast && !split &&
         param_of(p, op.params[0]).dims.size() >= kSmallWeight;
}

/// The ops whose positions nobody reads where the mask of an attention is 0.
struct Skips {
  int32_t mask = -1;
  std::vector<size_t> others, attentions;
};

Skips skips_of(const Plan& p, const Index& ix, Elements& elements, const PlanOp& attention) {
  Skips s;
  const auto& a = std::get<AttentionAttrs>(attention.attrs);
  if (a.mask_mode == SoftmaxMask::kNone || a.mask_head != 0 || a.mask_query != 0) return s;
  s.mask = attention.inputs[3];
  std::optional<Positions> mask = positions_of(p, ix, elements, s.mask);
  if (!mask || !always_counts(a, *mask)) return s;
  Padding padding(p, ix, elements, std::move(*mask));
  for (size_t i = 0; i < p.ops.size(); ++i) {
    const PlanOp& op = p.ops[i];
    if (op.kind == OpKind::kAttention && padding.asks_for_nothing(op)) s.attentions.push_back(i);
    if (may_skip(p, ix, op, s.mask) && padding.unread(op.outputs[0])) s.others.push_back(i);
  }
  return s;
}

}  // namespace

Result<Plan> count_positions(Plan p) {
  const Index ix = index_of(p);
  Elements elements(p, ix);
  std::vector<Skips> all;
  for (const PlanOp& op : p.ops) {
    if (op.kind == OpKind::kAttention && all.size() < kMostMasks)
      all.push_back(skips_of(p, ix, elements, op));
  }
  for (const Skips& s : all) {
    size_t ops = 0;
    for (const size_t i : s.attentions) std::get<AttentionAttrs>(p.ops[i].attrs).counted = 1;
    for (const size_t i : s.others) {
      if (!may_skip(p, ix, p.ops[i], s.mask)) continue;  // by another mask that is the same
      p.ops[i].inputs.resize(form_of(p.ops[i].kind).inputs.positions() - 1, -1);
      p.ops[i].inputs.push_back(s.mask);
      ++ops;
    }
    if (ops > 0)
      p.notes.push_back("positions: " + std::to_string(ops) + " ops where '" + value_of(p, s.mask).name +
                        "' counts");
  }
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
