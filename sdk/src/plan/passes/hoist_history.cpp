// A row's sequence [history of the user, its candidates]: where attention lets no position of the history
// read a candidate, what stands at the history's positions is the user's. Every op over positions becomes
// two, one of the history, on shared rows, and one of the candidates; attention of the candidates reads the
// history's keys and values from the shared row. What reads all positions gets both parts joined. Of the last
// layer only the keys and values of the history are left, as nothing reads its other positions.
//
// It begins at a Concat along positions of shared values and then others, and acts where an attention is cut.
#include <algorithm>
#include <set>
#include <utility>

#include "plan/passes/history.hpp"

namespace dpi::plan {
namespace {

using kernels::AttentionAttrs;
using kernels::HeadLayout;
using kernels::ViewAttrs;
using kernels::ViewKind;

// Cuts and attentions that are tried: what a hostile bundle can ask for.
constexpr size_t kMostCuts = 8, kMostTries = 256;

/// Cuts the ops of a plan. What it adds stays unread until `commit`.
class Cutter {
 public:
  Cutter(Plan& p, const Index& ix, const Cut& cut) : p_(p), ix_(ix), cut_(cut), bits_(p, ix), rows_(p) {}

  /// How many attentions are cut.
  size_t run() {
    const size_t n = p_.ops.size();
    for (size_t i = 0; i < n; ++i) {
      const PlanOp op = p_.ops[i];
      if (is_dead(op) || op.outputs.size() != 1 || !is_positions(op)) continue;
      cut_op(i, op);
    }
    return attentions_;
  }

  /// Whole values are joined of their halves, for readers that are left.
  void commit() {
    for (auto& [i, op] : edits_) p_.ops[i] = std::move(op);
    for (const auto& [i, halves] : joins_) {
      const int32_t history = value_of(p_, halves.history).space == RowSpace::kConstant
                                  ? halves.history
                                  : rows_.repeat(halves.history);  // which adds ops
      PlanOp join;
      join.kind = OpKind::kConcat;
      join.name = p_.ops[i].name + "/whole";
      join.attrs = kernels::ConcatAttrs{0};
      join.inputs = {history, halves.rest};
      join.outputs = p_.ops[i].outputs;
      p_.ops[i] = std::move(join);
    }
    p_.notes.push_back("history: " + std::to_string(joins_.size()) + " ops over " + std::to_string(cut_.at) +
                       " of " + std::to_string(cut_.total) + " positions, " + std::to_string(attentions_) +
                       " attentions among them, run once per user");
  }

 private:
  int64_t rest() const { return cut_.total - cut_.at; }
  bool is_positions(const PlanOp& op) const {
    const PlanValue& y = value_of(p_, op.outputs[0]);
    return !y.is_bags && y.space == RowSpace::kItem;
  }
  bool has_positions(int32_t v) const {
    const Dims& d = value_of(p_, v).dims;
    return d.rank > 0 && d.d[0] == cut_.total;
  }

  // ---- operands

  /// The shared value that v repeats for the item rows, or -1.
  int32_t user_value(int32_t v) const {
    const auto at = users_.find(v);
    return at != users_.end() ? at->second : repeated_value(p_, ix_, v);
  }

  /// The halves of a value of all positions; null where its history is not the user's.
  const Halves* halves_of(int32_t v) {
    if (const auto at = halves_.find(v); at != halves_.end()) return &at->second;
    if (!has_positions(v)) return nullptr;
    const int32_t user = user_value(v);
    if (const_data(p_, v) == nullptr && user < 0) return nullptr;
    Halves h;
    h.history = slice(user < 0 ? v : user, 0, cut_.at);
    h.rest = slice(user < 0 ? v : user, cut_.at, cut_.total);
    if (h.history < 0 || h.rest < 0) return nullptr;
    if (user >= 0) h.rest = rows_.repeat(h.rest);
    return &halves_.emplace(v, h).first->second;
  }
  /// An operand that is the same at all positions.
  std::optional<Halves> everywhere(int32_t v) const {
    const int32_t user = user_value(v);
    if (user < 0 && value_of(p_, v).space != RowSpace::kConstant) return std::nullopt;
    return Halves{user < 0 ? v : user, v};
  }
  /// Positions [begin, end) of a shared value or of a constant, which stays one; -1 for want of room.
  int32_t slice(int32_t v, int64_t begin, int64_t end) {
    Dims dims = value_of(p_, v).dims;
    const int64_t inner = dims.size() / dims.d[0];
    dims.d[0] = end - begin;
    const std::string name = value_of(p_, v).name + "/" + std::to_string(begin);
    if (const std::vector<float>* data = const_data(p_, v)) {
      if (!has_room(p_, dims.size(), name)) return -1;
      std::vector<float> some(data->begin() + begin * inner, data->begin() + end * inner);
      const int32_t param = add_param(p_, name, dims, std::move(some));
      const int32_t made = add_value(p_, name, dims, RowSpace::kConstant);
      PlanValue& value = p_.values[static_cast<size_t>(made)];
      value.storage = Storage::kConst;
      value.param = param;
      value.row_stride = 0;
      return made;
    }
    PlanOp op;
    op.kind = OpKind::kView;
    op.name = name;
    ViewAttrs attrs;
    attrs.kind = ViewKind::kSlice;
    attrs.begin = begin;
    attrs.end = end;
    op.attrs = attrs;
    return emit(std::move(op), {v}, dims, value_of(p_, v).space);
  }

  // ---- ops

  int32_t emit(PlanOp op, std::vector<int32_t> inputs, const Dims& dims, RowSpace space) {
    op.inputs = std::move(inputs);
    op.outputs = {add_value(p_, op.name, dims, space)};
    p_.ops.push_back(std::move(op));
    return p_.ops.back().outputs[0];
  }
  /// The op of the history's operands and of the others, which stand for op i's result.
  void make_halves(size_t i, const PlanOp& op, std::vector<int32_t> history, std::vector<int32_t> others) {
    Dims dims = value_of(p_, op.outputs[0]).dims;
    PlanOp of_history = op, of_rest = op;
    of_history.name = op.name + "/history";
    const auto extent = [&](PlanOp& half, int64_t n) {
      dims.d[0] = n;
      if (half.kind != OpKind::kView) return;
      auto& a = std::get<ViewAttrs>(half.attrs);
      if (a.kind == ViewKind::kReshape || a.kind == ViewKind::kExpand) a.dims.d[0] = n;
    };
    extent(of_history, cut_.at);
    const int32_t first = emit(std::move(of_history), std::move(history), dims, RowSpace::kShared);
    extent(of_rest, rest());
    const int32_t last = emit(std::move(of_rest), std::move(others), dims, RowSpace::kItem);
    set_halves(i, op.outputs[0], {first, last});
  }
  void set_halves(size_t i, int32_t v, const Halves& h) {
    halves_[v] = h;
    joins_.emplace_back(i, h);
  }

  /// Some positions of the history, and what is made of nothing but such, are the user's as a whole.
  bool is_of_user(const PlanOp& op) const {
    bool any = false;
    for (const int32_t v : op.inputs) {
      if (v >= 0 && user_value(v) < 0 && value_of(p_, v).space != RowSpace::kConstant) return false;
      any = any || users_.contains(v);
    }
    return any && op.tables.empty();
  }
  void give_to_user(size_t i, const PlanOp& op) {
    std::vector<int32_t> inputs;
    inputs.reserve(op.inputs.size());
    for (const int32_t v : op.inputs) inputs.push_back(v >= 0 && user_value(v) >= 0 ? user_value(v) : v);
    repeat(i, op, emit(op, std::move(inputs), value_of(p_, op.outputs[0]).dims, RowSpace::kShared));
  }
  /// Op i gives what the shared value repeats.
  void repeat(size_t i, const PlanOp& op, int32_t shared) {
    PlanOp repeat;
    repeat.kind = OpKind::kBroadcastRows;
    repeat.name = op.name + "@item";
    repeat.inputs = {shared};
    repeat.outputs = op.outputs;
    users_[op.outputs[0]] = shared;
    edits_.emplace_back(i, std::move(repeat));
  }

  void cut_op(size_t i, const PlanOp& op) {
    if (is_of_user(op)) return give_to_user(i, op);
    if (op.kind == OpKind::kConcat) return cut_concat(i, op);
    if (op.kind == OpKind::kView) return cut_view(i, op);
    if (op.kind == OpKind::kAttention) return cut_attention(i, op);
    constexpr OpKind kByPosition[] = {OpKind::kLinear, OpKind::kLayerNorm, OpKind::kUnary,  OpKind::kBinary,
                                      OpKind::kWhere,  OpKind::kSoftmax,   OpKind::kReduce, OpKind::kMatMul};
    const bool known =
        std::find(std::begin(kByPosition), std::end(kByPosition), op.kind) != std::end(kByPosition);
    if (known && has_positions(op.outputs[0]) && works_by_position(op)) cut_operands(i, op);
  }
  /// True if a position of the result is made of that position, or of operands without any.
  bool works_by_position(const PlanOp& op) const {
    const Dims& x = value_of(p_, op.inputs[0]).dims;
    if (op.kind == OpKind::kLinear) {
      const auto& a = std::get<kernels::LinearAttrs>(op.attrs);
      const bool split =
          std::any_of(op.inputs.begin() + 1, op.inputs.end(), [](int32_t v) { return v >= 0; });
      const int used = a.groups > 1 || a.axis == kernels::LinearAxis::kField ? 2 : 1;  // trailing axes
      return !split && x.rank > used;
    }
    if (op.kind == OpKind::kUnary)
      return x.rank > 1 || std::all_of(op.params.begin(), op.params.end(), [](int32_t w) { return w < 0; });
    if (op.kind == OpKind::kLayerNorm) return x.rank > 1;
    if (op.kind == OpKind::kSoftmax) {  // its mask may be aligned at the left
      const bool aligned =
          op.inputs.size() < 2 || op.inputs[1] < 0 || value_of(p_, op.inputs[1]).dims.rank == x.rank;
      return aligned && std::get<kernels::SoftmaxAttrs>(op.attrs).axis > 0;
    }
    if (op.kind == OpKind::kReduce)
      return std::get<kernels::ReduceAttrs>(op.attrs).axis > 0 && (op.inputs.size() < 2 || op.inputs[1] < 0);
    if (op.kind != OpKind::kMatMul) return true;
    const auto& a = std::get<kernels::MatMulAttrs>(op.attrs);
    const int rank = value_of(p_, op.outputs[0]).dims.rank;
    const bool rows = rank == 2 && a.trans_a == 0 && x.rank == 2 &&
                      value_of(p_, op.inputs[1]).dims.rank == 2 && !halves_.contains(op.inputs[1]);
    return a.part == kernels::MatMulPart::kAll && (rank > 2 || rows);
  }
  /// Operands are aligned at the right: one has the positions if it has as many axes as the result.
  void cut_operands(size_t i, const PlanOp& op) {
    const Dims y = value_of(p_, op.outputs[0]).dims;  // values are added below
    std::vector<int32_t> history, others;
    bool any = false;
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      const int32_t v = op.inputs[k];
      std::optional<Halves> h = Halves{};
      const bool second = op.kind == OpKind::kMatMul && y.rank == 2 && k == 1;  // the same for all positions
      const bool own = v >= 0 && !second && has_positions(v) &&
                       (value_of(p_, v).dims.rank == y.rank || op.kind == OpKind::kReduce);
      if (own) {
        const Halves* found = halves_of(v);
        h = found == nullptr ? std::nullopt : std::optional(*found);
        any = true;
      } else if (v >= 0) {
        h = everywhere(v);
      }
      if (!h) return;
      history.push_back(h->history);
      others.push_back(h->rest);
    }
    if (any) make_halves(i, op, std::move(history), std::move(others));
  }

  /// Along positions the pieces of the history come first, and end where the cut is.
  void cut_concat(size_t i, const PlanOp& op) {
    if (!has_positions(op.outputs[0])) return;
    if (std::get<kernels::ConcatAttrs>(op.attrs).axis > 0) return cut_operands(i, op);
    std::vector<int32_t> history, others;
    int64_t at = 0;
    for (const int32_t v : op.inputs) {
      const bool first = at < cut_.at;
      at += value_of(p_, v).dims.d[0];
      if (first && at > cut_.at) return;
      const std::optional<Halves> h = first ? everywhere(v) : std::optional(Halves{-1, v});
      if (!h) return;
      (first ? history : others).push_back(first ? h->history : h->rest);
    }
    Dims dims = value_of(p_, op.outputs[0]).dims;
    const auto join = [&](const std::vector<int32_t>& pieces, int64_t n, RowSpace space) {
      if (pieces.size() == 1) return pieces[0];
      dims.d[0] = n;
      return emit(op, pieces, dims, space);
    };
    const int32_t first = join(history, cut_.at, RowSpace::kShared);
    halves_[op.outputs[0]] = {first, join(others, rest(), RowSpace::kItem)};
  }

  void cut_view(size_t i, const PlanOp& op) {
    const auto& a = std::get<ViewAttrs>(op.attrs);
    if (!has_positions(op.inputs[0])) return;
    const bool moves_positions = (a.kind == ViewKind::kTranspose && a.dims.d[0] != 0) ||
                                 (a.kind == ViewKind::kReshape && !has_positions(op.outputs[0])) ||
                                 (a.kind == ViewKind::kExpand && value_of(p_, op.outputs[0]).dims.rank !=
                                                                     value_of(p_, op.inputs[0]).dims.rank);
    if (moves_positions) return;
    const Halves* h = halves_of(op.inputs[0]);
    if (h == nullptr) return;
    const bool picks = a.kind == ViewKind::kSlice || a.kind == ViewKind::kIndexSelect;
    if (picks && a.axis == 0) return pick(i, op, *h);
    make_halves(i, op, {h->history}, {h->rest});
  }
  /// A view of some positions, all of one half.
  void pick(size_t i, PlanOp op, const Halves& h) {
    auto& a = std::get<ViewAttrs>(op.attrs);
    const bool slices = a.kind == ViewKind::kSlice;
    int64_t low = a.begin, high = a.end;
    if (!slices) {
      const auto [least, most] = std::minmax_element(op.indices.begin(), op.indices.end());
      low = *least;
      high = *most + 1;
    }
    if (low < cut_.at && high > cut_.at) return;
    if (low >= cut_.at) {
      a.begin -= slices ? cut_.at : 0;
      a.end -= slices ? cut_.at : 0;
      for (int64_t& k : op.indices) k -= cut_.at;
      op.inputs = {h.rest};
      return edits_.emplace_back(i, std::move(op)), void();
    }
    const int32_t some = emit(op, {h.history}, value_of(p_, op.outputs[0]).dims, RowSpace::kShared);
    repeat(i, op, some);
  }

  // ---- attention

  /// A position of the layout is one of the value, whose first axis they are.
  bool lies_by_position(int32_t v, const HeadLayout& l, int64_t heads, int64_t columns) const {
    return has_positions(v) && l.position * cut_.total == value_of(p_, v).dims.size() &&
           l.at(heads - 1, 0) + columns <= l.position;
  }
  void cut_attention(size_t i, const PlanOp& op) {
    const auto& a = std::get<AttentionAttrs>(op.attrs);
    if (a.keys != cut_.total || a.counted != 0 || a.prefix != 0 || ++tries_ > kMostTries) return;
    if (!lies_by_position(op.inputs[1], a.k, a.heads, a.dim) ||
        !lies_by_position(op.inputs[2], a.v, a.heads, a.value_dim))
      return;
    const Halves *k = halves_of(op.inputs[1]), *v = halves_of(op.inputs[2]);
    if (k == nullptr || v == nullptr) return;
    const Halves keys = *k, values = *v;
    if (a.queries == cut_.total && lies_by_position(op.inputs[0], a.q, a.heads, a.dim) &&
        lies_by_position(op.outputs[0], a.y, a.heads, a.value_dim)) {
      if (const Halves* q = halves_of(op.inputs[0])) return cut_queries(i, op, *q, keys, values);
    }
    const auto attrs = behind_history(bits_, op, cut_, false);
    if (!attrs) return;
    PlanOp rest = op;
    rest.attrs = *attrs;
    rest.inputs = {op.inputs[0], keys.rest,    values.rest,   input(op, 3),
                   input(op, 4), keys.history, values.history};
    edits_.emplace_back(i, std::move(rest));
    ++attentions_;
  }
  static int32_t input(const PlanOp& op, size_t i) { return i < op.inputs.size() ? op.inputs[i] : -1; }

  void cut_queries(size_t i, const PlanOp& op, const Halves& q, const Halves& k, const Halves& v) {
    const auto& a = std::get<AttentionAttrs>(op.attrs);
    const bool masked = a.mask_mode != kernels::SoftmaxMask::kNone;
    const auto attrs = behind_history(bits_, op, cut_, true);
    if (!attrs || !history_sees_itself(bits_, op, cut_)) {
      p_.notes.push_back("history: '" + op.name + "' reads positions behind " + std::to_string(cut_.at));
      return;
    }
    std::vector<int32_t> history = {q.history, k.history, v.history}, others = {q.rest, k.rest, v.rest};
    if (masked) {
      const Halves* mask = halves_of(op.inputs[3]);
      const bool pairs = a.mask_query != 0;
      const Dims& d = value_of(p_, op.inputs[3]).dims;
      if (mask == nullptr || d.rank != (pairs ? 2 : 1) || (pairs && d.d[1] != a.mask_query)) return;
      history.push_back(mask->history);
      others.push_back(pairs ? mask->rest : op.inputs[3]);
    }
    if (a.biased != 0) {
      const int32_t bias = op.inputs[masked ? 4 : 3];
      const std::optional<Halves> h = everywhere(bias);
      if (!h) return;
      history.push_back(h->history);
      others.push_back(h->rest);
    }
    AttentionAttrs of_history = a;
    of_history.queries = of_history.keys = cut_.at;
    of_history.candidates = 0;
    history.resize(5, -1);
    others.resize(5, -1);
    others.push_back(k.history);
    others.push_back(v.history);
    make_attentions(i, op, of_history, *attrs, std::move(history), std::move(others));
  }
  void make_attentions(size_t i, const PlanOp& op, const AttentionAttrs& of_history,
                       const AttentionAttrs& of_rest, std::vector<int32_t> history,
                       std::vector<int32_t> others) {
    Dims dims = value_of(p_, op.outputs[0]).dims;
    PlanOp first = op, last = op;
    first.name = op.name + "/history";
    first.attrs = of_history;
    last.attrs = of_rest;
    dims.d[0] = cut_.at;
    const int32_t user = emit(std::move(first), std::move(history), dims, RowSpace::kShared);
    dims.d[0] = rest();
    set_halves(i, op.outputs[0], {user, emit(std::move(last), std::move(others), dims, RowSpace::kItem)});
    ++attentions_;
  }

  Plan& p_;
  const Index& ix_;
  Cut cut_;
  ZeroOne bits_;
  RowJoiner rows_;
  std::map<int32_t, Halves> halves_;
  std::map<int32_t, int32_t> users_;
  std::vector<std::pair<size_t, Halves>> joins_;
  std::vector<std::pair<size_t, PlanOp>> edits_;
  size_t attentions_ = 0, tries_ = 0;
};

/// Where a Concat along positions goes over from shared values to others.
std::optional<Cut> cut_at(const Plan& p, const Index& ix, const PlanOp& op) {
  if (op.kind != OpKind::kConcat || std::get<kernels::ConcatAttrs>(op.attrs).axis != 0) return std::nullopt;
  const PlanValue& y = value_of(p, op.outputs[0]);
  if (y.space != RowSpace::kItem || y.dims.rank < 2) return std::nullopt;
  Cut cut{0, y.dims.d[0]};
  bool shared = false;
  for (const int32_t v : op.inputs) {
    const bool user = repeated_value(p, ix, v) >= 0;
    if (!user && value_of(p, v).space != RowSpace::kConstant) break;
    cut.at += value_of(p, v).dims.d[0];
    shared = shared || user;
  }
  return shared && cut.at < cut.total ? std::optional(cut) : std::nullopt;
}

/// Sizes of a plan before a try.
struct Sizes {
  size_t values, params, ops, notes;
  int64_t floats;

  explicit Sizes(const Plan& p)
      : values(p.values.size()),
        params(p.params.size()),
        ops(p.ops.size()),
        notes(p.notes.size()),
        floats(p.floats) {}
  void restore(Plan& p) const {
    p.values.resize(values);
    p.params.resize(params);
    p.ops.resize(ops);
    p.floats = floats;
  }
};

}  // namespace

Result<Plan> hoist_history(Plan p) {
  std::set<Cut> tried;
  while (tried.size() < kMostCuts) {
    const Index ix = index_of(p);
    std::optional<Cut> next;
    for (const PlanOp& op : p.ops) {
      const auto cut = is_dead(op) ? std::nullopt : cut_at(p, ix, op);
      if (!next && cut && !tried.contains(*cut)) next = cut;
    }
    if (!next) break;
    tried.insert(*next);
    const Sizes before(p);
    Cutter cutter(p, ix, *next);
    if (cutter.run() == 0) {
      before.restore(p);
      continue;
    }
    cutter.commit();
    DPI_ASSIGN_OR_RETURN(p, cleanup(std::move(p)));
  }
  return p;
}

}  // namespace dpi::plan
