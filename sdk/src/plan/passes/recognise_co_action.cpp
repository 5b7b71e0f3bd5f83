// CAN's co-actions: a micro-MLP whose weights are columns of a looked-up row, over the powers of another
// feature's rows, pooled over the positions that count, its levels and orders put together in any usual way,
// into one CoAction op. A value is one when each of its elements is the sum, over the positions that count,
// of one number of one level in one order (or in all of them).
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "plan/passes/micro_mlp.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

using kernels::BinaryKind;
using kernels::CoActionAttrs;
using kernels::ReduceKind;
using kernels::UnaryKind;

constexpr size_t kMostTerms = 1 << 16;  // of one element
constexpr int kDeepestSum = 4;          // sums of sums: positions, orders
constexpr int32_t kMostOrders = 16;

/// One number of one level at one position, as an element of a result takes it.
struct Term {
  int32_t product = -1;
  MicroFeed::Row row;
  int64_t column = 0;
  bool masked = false;  // times the mask at this position
  bool mean = false;    // divided by the number of positions that count
};

/// What all elements of a result have in common.
struct Common {
  int32_t induction = -1;
  int32_t mask = -1;  // of a Mask op
  bool mean = false;
  MicroFeed feed;
};

/// An element of a result.
struct Cell {
  int32_t position = 0;  // of the level
  int64_t column = 0;
  uint32_t orders = 0;  // bit p - 1: order p
};

class Recogniser {
 public:
  explicit Recogniser(Plan& plan)
      : p_(plan), ix_(index_of(plan)), elements_(plan, ix_), products_(plan, ix_, elements_) {}

  void run() {
    if (products_.empty()) return;
    const size_t n = p_.ops.size();
    std::vector<char> taken(n, 0);
    for (size_t i = n; i-- > 0;) {  // the widest result first
      if (taken[i] || is_dead(p_.ops[i]) || !match(p_.ops[i].outputs[0])) continue;
      for (const int32_t k : inside_) taken[static_cast<size_t>(k)] = 1;
      emit(i);
    }
  }

 private:
  const PlanOp* producer(int32_t v) const {
    const int32_t i = ix_.producer[static_cast<size_t>(v)];
    return i < 0 ? nullptr : &p_.ops[static_cast<size_t>(i)];
  }

  // ---- the terms of an element

  bool terms_of(const Element& e, int depth, std::vector<Term>* out) {
    if (e.power != 1 || out->size() > kMostTerms || depth > kDeepestSum) return false;
    const int32_t i = products_.ending_in(e.value);
    if (i >= 0) {
      const int64_t n = products_[i].outputs;
      out->push_back(
          {i, products_.first_of(i).feed.rows[static_cast<size_t>(e.index / n)], e.index % n, false});
      return true;
    }
    const PlanOp* op = producer(e.value);
    if (op == nullptr) return false;
    if (op->kind == OpKind::kMatMul) return masked_product(*op, e.index, depth, out);
    if (op->kind == OpKind::kReduce) return reduced(*op, e.index, depth, out);
    return op->kind == OpKind::kBinary && divided(*op, e.index, depth, out);
  }

  bool terms_at(int32_t value, int64_t index, int depth, std::vector<Term>* out) {
    const std::vector<Element>* all = elements_.of(value);
    return all != nullptr && terms_of((*all)[static_cast<size_t>(index)], depth + 1, out);
  }

  /// Terms [begin, end) are times the mask at position t: each is of that position, and not masked before.
  static bool put_mask(std::vector<Term>* out, size_t begin, int64_t t) {
    for (size_t k = begin; k < out->size(); ++k) {
      if ((*out)[k].masked || (*out)[k].row.position != t) return false;
      (*out)[k].masked = true;
    }
    return true;
  }

  static bool put_mean(std::vector<Term>* out, size_t begin) {
    for (size_t k = begin; k < out->size(); ++k) {
      if ((*out)[k].mean) return false;
      (*out)[k].mean = true;
    }
    return true;
  }

  bool is_mask(const Element& e, int64_t t) {
    const PlanOp* op = producer(e.value);
    if (op == nullptr || op->kind != OpKind::kMask || e.power != 1 || e.index != t) return false;
    if (common_.mask < 0) common_.mask = e.value;
    return common_.mask == e.value;
  }

  /// mask [1, T] x [T, n].
  bool masked_product(const PlanOp& op, int64_t index, int depth, std::vector<Term>* out) {
    const auto& a = std::get<kernels::MatMulAttrs>(op.attrs);
    const Dims& x = value_of(p_, op.inputs[1]).dims;
    const std::vector<Element>* mask = elements_.of(op.inputs[0]);
    const int64_t n = x.at(-1);
    if (a.trans_a != 0 || a.trans_b != 0 || a.alpha != 1.0f || x.rank != 2 || mask == nullptr) return false;
    if (value_of(p_, op.inputs[0]).dims.size() != x.d[0] || index >= n) return false;
    for (int64_t t = 0; t < x.d[0]; ++t) {
      const size_t begin = out->size();
      if (!is_mask((*mask)[static_cast<size_t>(t)], t) || !terms_at(op.inputs[1], t * n + index, depth, out))
        return false;
      if (!put_mask(out, begin, t)) return false;
    }
    return true;
  }

  bool reduced(const PlanOp& op, int64_t index, int depth, std::vector<Term>* out) {
    const auto& a = std::get<kernels::ReduceAttrs>(op.attrs);
    const Dims& x = value_of(p_, op.inputs[0]).dims;
    const int64_t n = x.d[a.axis];
    int64_t inner = 1;
    for (int i = a.axis + 1; i < x.rank; ++i) inner *= x.d[i];
    const std::vector<Element>* mask = op.inputs[1] < 0 ? nullptr : elements_.of(op.inputs[1]);
    const bool has_mask = op.inputs[1] >= 0;
    const bool mean = a.kind == ReduceKind::kMean && (n > 1 || has_mask);
    if ((a.kind != ReduceKind::kSum && a.kind != ReduceKind::kMean) || (has_mask && mask == nullptr))
      return false;
    if (mean && (!has_mask || a.eps != 0.0f)) return false;
    const size_t all = out->size();
    for (int64_t t = 0; t < n; ++t) {
      const size_t begin = out->size();
      if (!terms_at(op.inputs[0], (index / inner * n + t) * inner + index % inner, depth, out)) return false;
      if (!has_mask) continue;
      const auto at = static_cast<size_t>(index / inner * n + t);
      if (at >= mask->size() || !is_mask((*mask)[at], t) || !put_mask(out, begin, t)) return false;
    }
    return !mean || put_mean(out, all);
  }

  /// A sum over the positions that count, divided by how many do, 1 where none does.
  bool divided(const PlanOp& op, int64_t index, int depth, std::vector<Term>* out) {
    if (std::get<kernels::BinaryAttrs>(op.attrs).kind != BinaryKind::kDiv) return false;
    const int64_t n = value_of(p_, op.outputs[0]).dims.size();
    if (value_of(p_, op.inputs[0]).dims.size() != n || !is_count(op.inputs[1])) return false;
    const size_t begin = out->size();
    return terms_at(op.inputs[0], index, depth, out) && put_mean(out, begin);
  }

  /// max(1, the number of positions that count), one element.
  bool is_count(int32_t v) {
    const std::vector<Element>* all = elements_.of(v);
    if (all == nullptr || all->size() != 1 || all->front().power != 1) return false;
    const PlanOp* op = producer(all->front().value);
    if (op == nullptr) return false;
    if (op->kind == OpKind::kUnary) {
      const auto& a = std::get<kernels::UnaryAttrs>(op->attrs);
      return a.kind == UnaryKind::kClamp && a.a == 1.0f && a.b >= 16777216.0f && is_mask_sum(op->inputs[0]);
    }
    if (op->kind != OpKind::kBinary || std::get<kernels::BinaryAttrs>(op->attrs).kind != BinaryKind::kMax)
      return false;
    double one = 0;
    for (size_t side = 0; side < 2; ++side) {
      if (scalar_const(p_, op->inputs[side], &one) && one == 1.0) return is_mask_sum(op->inputs[1 - side]);
    }
    return false;
  }

  bool is_mask_sum(int32_t v) {
    const std::vector<Element>* all = elements_.of(v);
    const PlanOp* op = all == nullptr || all->size() != 1 ? nullptr : producer(all->front().value);
    if (op == nullptr || op->kind != OpKind::kReduce || op->inputs[1] >= 0) return false;
    const std::vector<Element>* mask = elements_.of(op->inputs[0]);
    if (mask == nullptr || std::get<kernels::ReduceAttrs>(op->attrs).kind != ReduceKind::kSum) return false;
    for (size_t t = 0; t < mask->size(); ++t) {
      if (!is_mask((*mask)[t], static_cast<int64_t>(t))) return false;
    }
    return static_cast<int64_t>(mask->size()) == value_of(p_, common_.mask).dims.size();
  }

  // ---- a result

  bool match(int32_t root) {
    const PlanValue& value = value_of(p_, root);
    if (value.is_bags || value.dims.size() > kernels::kMaxMicroNumbers) return false;
    const std::vector<Element>* all = elements_.of(root);
    if (all == nullptr) return false;
    common_ = {};
    cells_.clear();
    levels_.clear();
    std::vector<Term> terms;
    for (const Element& e : *all) {
      terms.clear();
      if (!terms_of(e, 0, &terms) || !add_cell(terms)) return false;
    }
    attrs_ = {};
    return fill_feed(root) && fill_levels() && fill_columns() && is_more_than_a_product() &&
           keeps_inside(root);
  }

  bool joins_common(const MicroProduct& m, const MicroFeed& f, bool mean) {
    if (common_.induction < 0) {
      common_.induction = m.induction;
      common_.feed = f;
      common_.mean = mean;
    }
    const MicroFeed& c = common_.feed;
    return m.induction == common_.induction && f.value == c.value && f.first == c.first && f.dim == c.dim &&
           f.joined == c.joined && mean == common_.mean;
  }

  /// One element: the same number of one level at every position, in each order that it adds up.
  bool add_cell(const std::vector<Term>& terms) {
    if (terms.empty()) return false;
    Cell cell{products_[terms[0].product].position, terms[0].column, 0};
    std::set<std::pair<int32_t, int64_t>> seen;  // order, position
    for (const Term& t : terms) {
      const MicroProduct& m = products_[t.product];
      const MicroFeed& feed = products_.first_of(t.product).feed;
      if (m.position != cell.position || t.column != cell.column || t.masked != feed.history) return false;
      if (t.row.order > kMostOrders || !joins_common(m, feed, t.mean)) return false;
      if (!seen.insert({t.row.order, t.row.position}).second || !add_level(t.row.order, t.product))
        return false;
      cell.orders |= 1u << (t.row.order - 1);
    }
    const auto orders = static_cast<int64_t>(__builtin_popcount(cell.orders));
    cells_.push_back(cell);
    return static_cast<int64_t>(seen.size()) == orders * common_.feed.positions;
  }

  /// Product i is a level of this order, and so are those before it.
  bool add_level(int32_t order, int32_t i) {
    for (; i >= 0; i = products_[i].previous) {
      const auto [at, fresh] = levels_.insert({{order, products_[i].position}, i});
      if (!fresh) return at->second == i;
    }
    return true;
  }

  bool fill_feed(int32_t root) {
    const MicroFeed& f = common_.feed;
    const PlanValue& feed = value_of(p_, f.value);
    attrs_.feed_col = static_cast<int32_t>(f.first);
    attrs_.feed_dim = static_cast<int32_t>(f.dim);
    attrs_.joined = f.joined > 0 ? 1 : 0;
    attrs_.orders = f.joined > 0 ? f.joined : levels_.rbegin()->first.first;
    attrs_.mean = common_.mean ? 1 : 0;
    space_ = value_of(p_, root).space;
    if (space_ == RowSpace::kConstant || value_of(p_, common_.induction).space == RowSpace::kConstant)
      return false;
    if (!f.history) return common_.mask < 0 && !common_.mean && feed.space != RowSpace::kConstant;
    const PlanOp* embed = producer(f.value);
    const PlanOp* mask = common_.mask < 0 ? nullptr : producer(common_.mask);
    if (mask == nullptr || mask->inputs[0] != embed->inputs[0]) return false;
    const auto& rule = std::get<kernels::MaskAttrs>(mask->attrs);
    const PlanValue& bags = value_of(p_, embed->inputs[0]);
    attrs_.mask = rule.rule;
    attrs_.pad_id = rule.pad_id;
    attrs_.max_len = f.positions;
    attrs_.mapped = bags.space == space_ ? 0 : 1;
    const bool known = rule.rule == kernels::MaskRule::kLength || rule.rule == kernels::MaskRule::kId;
    return known && !p_.features[static_cast<size_t>(bags.feature)].weighted &&
           (bags.space == space_ || bags.space == RowSpace::kShared);
  }

  /// Orders 1, 2 .. have the same levels, and their weights lie evenly.
  bool fill_levels() {
    const int32_t runs = attrs_.joined != 0 ? 1 : attrs_.orders;
    const int32_t deepest =
        std::max_element(levels_.begin(), levels_.end(), [](const auto& a, const auto& b) {
          return a.first.second < b.first.second;
        })->first.second;
    attrs_.n_levels = deepest + 1;
    if (attrs_.orders * common_.feed.dim > kernels::kMaxMicroNumbers) return false;
    if (levels_.size() != static_cast<size_t>(runs * attrs_.n_levels)) return false;
    if (runs > 1 && levels_.contains({2, 0}))
      attrs_.weight_step =
          static_cast<int32_t>(products_[levels_.at({2, 0})].weight - products_[levels_.at({1, 0})].weight);
    if (attrs_.weight_step < 0) return false;
    for (const auto& [at, product] : levels_) {
      const MicroProduct& m = products_[product];
      const auto first = levels_.find({1, at.second});
      if (first == levels_.end() || value_of(p_, m.value).space != space_) return false;
      const MicroProduct& one = products_[first->second];
      const int64_t shift = int64_t{at.first - 1} * attrs_.weight_step;
      const bool same_act = m.act.kind == one.act.kind && m.act.a == one.act.a && m.act.b == one.act.b;
      if (runs * m.outputs > kernels::kMaxMicroNumbers) return false;
      if (m.inputs != one.inputs || m.outputs != one.outputs || !same_act || m.weight != one.weight + shift)
        return false;
      if ((m.bias < 0) != (one.bias < 0) || (m.bias >= 0 && m.bias != one.bias + shift)) return false;
      kernels::MicroLevel& level = attrs_.levels[at.second];
      level = {static_cast<int32_t>(one.inputs),
               static_cast<int32_t>(one.outputs),
               static_cast<int32_t>(one.weight),
               static_cast<int32_t>(one.bias),
               -1,
               one.act};
    }
    return true;
  }

  /// The elements of a level lie in order, those of the orders evenly, or all orders are added up.
  bool fill_columns() {
    const int32_t runs = attrs_.joined != 0 ? 1 : attrs_.orders;
    const bool added = runs > 1 && cells_[0].orders == (1u << runs) - 1;
    const auto n = static_cast<int32_t>(cells_.size());
    for (int32_t e = 0; e < n; ++e) {
      kernels::MicroLevel& level = attrs_.levels[cells_[static_cast<size_t>(e)].position];
      const Cell& cell = cells_[static_cast<size_t>(e)];
      if (cell.column != 0) continue;
      if ((cell.orders & 1u) != 0) level.out_col = e;
      if (!added && cell.orders == 2u && level.out_col >= 0) attrs_.out_step = e - level.out_col;
    }
    for (int32_t e = 0; e < n; ++e) {
      const Cell& cell = cells_[static_cast<size_t>(e)];
      const int32_t order = __builtin_ctz(cell.orders);
      if (cell.orders != (added ? (1u << runs) - 1 : 1u << order)) return false;
      const kernels::MicroLevel& level = attrs_.levels[cell.position];
      if (level.out_col < 0 || e != level.out_col + (added ? 0 : order * attrs_.out_step) + cell.column)
        return false;
    }
    int64_t collected = 0;
    for (const kernels::MicroLevel& level : attrs_.levels)
      collected += level.out_col >= 0 ? level.outputs : 0;
    return attrs_.out_step >= 0 && n == collected * (added ? 1 : runs);
  }

  /// A plain product with a looked-up matrix is left alone, and the end of a model that is a dot product.
  bool is_more_than_a_product() const {
    const kernels::MicroLevel& first = attrs_.levels[0];
    const bool bends = first.act.kind != UnaryKind::kIdentity && (common_.feed.history || first.outputs > 1);
    return attrs_.n_levels > 1 || attrs_.orders > 1 || bends;
  }

  /// Fills inside_; nothing else reads what the levels give, or all of it would be computed twice.
  bool keeps_inside(int32_t root) {
    inside_.clear();
    const std::set<int32_t> ends = {common_.induction, common_.feed.value, common_.mask};
    std::vector<int32_t> next{root};
    while (!next.empty()) {
      const int32_t v = next.back();
      next.pop_back();
      const int32_t i = v < 0 ? -1 : ix_.producer[static_cast<size_t>(v)];
      if (i < 0 || ends.contains(v) || !inside_.insert(i).second) continue;
      const PlanOp& op = p_.ops[static_cast<size_t>(i)];
      next.insert(next.end(), op.inputs.begin(), op.inputs.end());
    }
    for (const auto& [at, product] : levels_) {
      for (const int32_t v : products_[product].values) {
        if (v == root) continue;
        if (ix_.head_uses[static_cast<size_t>(v)] > 0) return false;
        for (const int32_t user : ix_.users[static_cast<size_t>(v)]) {
          if (!inside_.contains(user)) return false;
        }
      }
    }
    return true;
  }

  // ---- the op

  /// The value for the rows of the result.
  int32_t in_space(int32_t v) {
    const PlanValue from = value_of(p_, v);
    if (from.space == space_) return v;
    if (const auto made = copies_.find(v); made != copies_.end()) return made->second;
    PlanOp op;
    op.kind = OpKind::kBroadcastRows;
    op.name = from.name + "@item";
    op.inputs = {v};
    op.outputs = {add_value(p_, op.name, from.dims, space_)};
    copies_[v] = op.outputs[0];
    p_.ops.push_back(op);
    return op.outputs[0];
  }

  void emit(size_t i) {
    const MicroFeed& f = common_.feed;
    PlanOp op;
    op.kind = OpKind::kCoAction;
    op.name = p_.ops[i].name;
    op.module = p_.ops[i].module;
    op.outputs = p_.ops[i].outputs;
    op.attrs = attrs_;
    if (f.history) {
      const PlanOp embed = *producer(f.value);
      op.inputs = {in_space(common_.induction), embed.inputs[0]};
      op.tables = embed.tables;
    } else {
      op.inputs = {in_space(common_.induction), in_space(f.value)};
    }
    p_.ops[i] = std::move(op);
    p_.notes.push_back("co-action: " + std::to_string(inside_.size()) + " ops of '" + p_.ops[i].name +
                       "' in one");
  }

  Plan& p_;
  Index ix_;
  Elements elements_;
  MicroProducts products_;
  // of the last match
  Common common_;
  std::vector<Cell> cells_;
  std::map<std::pair<int32_t, int32_t>, int32_t> levels_;  // (order, position) -> product
  CoActionAttrs attrs_;
  RowSpace space_ = RowSpace::kItem;
  std::set<int32_t> inside_;
  std::map<int32_t, int32_t> copies_;  // shared values for item rows
};

}  // namespace

Result<Plan> recognise_co_action(Plan p) {
  Recogniser(p).run();
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
