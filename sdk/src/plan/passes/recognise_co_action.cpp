// CAN's co-actions: a micro-MLP whose weights are columns of a looked-up row, over the powers of another
// feature's rows, pooled over the positions that count, its levels and orders put together in any usual way,
// into one CoAction op. A value is one when each of its elements is the sum, over the positions that count,
// of one number of one level in one order (or in all of them).
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "plan/passes/micro_terms.hpp"
#include "plan/passes/passes.hpp"

namespace dpi::plan {
namespace {

using kernels::CoActionAttrs;
using kernels::UnaryKind;

constexpr int32_t kMostOrders = 16;

/// Properties that all elements of a result share.
struct Common {
  int32_t induction = -1;
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
      : p_(plan),
        ix_(index_of(plan)),
        elements_(plan, ix_),
        products_(plan, ix_, elements_),
        terms_(plan, ix_, elements_, products_) {}

  void run() {
    if (products_.empty()) return;
    const size_t n = p_.ops.size();
    std::vector<char> taken(n, 0);
    for (size_t i = n; i-- > 0;) {  // the widest result first
      if (taken[i] || is_dead(p_.ops[i])) continue;
      if (match({p_.ops[i].outputs[0]})) {
        for (const int32_t k : inside_) taken[static_cast<size_t>(k)] = 1;
        p_.ops[i] = made_op(p_.ops[i], p_.ops[i].outputs[0]);
      } else if (p_.ops[i].kind == OpKind::kConcat) {
        take_runs(i, &taken);
      }
    }
  }

 private:
  const PlanOp* producer(int32_t v) const {
    const int32_t i = ix_.producer[static_cast<size_t>(v)];
    return i < 0 ? nullptr : &p_.ops[static_cast<size_t>(i)];
  }

  // ---- several inputs of a Concat, which are put together nowhere else

  /// The source of an input's first element; nothing where it is no co-action.
  std::vector<int64_t> source_of(int32_t v) {
    const std::vector<Element>* all = value_of(p_, v).is_bags ? nullptr : elements_.of(v);
    std::vector<MicroTerm> terms;
    terms_.forget_mask();
    if (all == nullptr || !terms_.of(all->front(), &terms) || terms.empty()) return {};
    const MicroProduct& first = products_.first_of(terms[0].product);
    return {first.induction, first.feed.value, first.feed.first};
  }

  void take_runs(size_t i, std::vector<char>* taken) {
    if (value_of(p_, p_.ops[i].outputs[0]).dims.rank != 1) return;
    const std::vector<int32_t> inputs = p_.ops[i].inputs;
    for (size_t end = inputs.size(); end > 0;) {
      const std::vector<int64_t> source = source_of(inputs[end - 1]);
      size_t begin = end - 1;
      while (!source.empty() && begin > 0 && source_of(inputs[begin - 1]) == source) --begin;
      const std::vector<int32_t> run(inputs.begin() + static_cast<int64_t>(begin),
                                     inputs.begin() + static_cast<int64_t>(end));
      if (!source.empty() && match(run)) {
        for (const int32_t k : inside_) (*taken)[static_cast<size_t>(k)] = 1;
        put_run(i, begin, end);
      }
      end = begin;
    }
  }

  /// Inputs [begin, end) of the Concat become the one value of the last match.
  void put_run(size_t i, size_t begin, size_t end) {
    const PlanOp concat = p_.ops[i];
    const auto n = static_cast<int64_t>(cells_.size());
    const std::string name = value_of(p_, concat.inputs[begin]).name;
    const int32_t joined = add_value(p_, name + "/co_action", dims_of({n}), space_);
    const auto from = static_cast<size_t>(ix_.producer[static_cast<size_t>(concat.inputs[begin])]);
    p_.ops.push_back(made_op(p_.ops[from], joined));
    std::vector<int32_t>& inputs = p_.ops[i].inputs;
    inputs.erase(inputs.begin() + static_cast<int64_t>(begin), inputs.begin() + static_cast<int64_t>(end));
    inputs.insert(inputs.begin() + static_cast<int64_t>(begin), joined);
  }

  // ---- a result

  /// The elements of `roots`, one value after another, are a co-action.
  bool match(const std::vector<int32_t>& roots) {
    common_ = {};
    terms_.forget_mask();
    cells_.clear();
    levels_.clear();
    std::vector<MicroTerm> terms;
    for (const int32_t root : roots) {
      const PlanValue& value = value_of(p_, root);
      if (value.is_bags || value.space != value_of(p_, roots[0]).space) return false;
      const auto n = static_cast<int64_t>(cells_.size());
      if (value.dims.size() > kernels::kMaxMicroNumbers - n) return false;
      const std::vector<Element>* all = elements_.of(root);
      if (all == nullptr) return false;
      for (const Element& e : *all) {
        terms.clear();
        if (!terms_.of(e, &terms) || !add_cell(terms)) return false;
      }
    }
    attrs_ = {};
    return fill_feed(value_of(p_, roots[0]).space) && fill_levels() && fill_columns() &&
           is_more_than_a_product() && keeps_inside(roots);
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
  bool add_cell(const std::vector<MicroTerm>& terms) {
    if (terms.empty()) return false;
    Cell cell{products_[terms[0].product].position, terms[0].column, 0};
    std::set<std::pair<int32_t, int64_t>> seen;  // order, position
    for (const MicroTerm& t : terms) {
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

  bool fill_feed(RowSpace space) {
    const MicroFeed& f = common_.feed;
    const PlanValue& feed = value_of(p_, f.value);
    attrs_.feed_col = static_cast<int32_t>(f.first);
    attrs_.feed_dim = static_cast<int32_t>(f.dim);
    attrs_.joined = f.joined > 0 ? 1 : 0;
    attrs_.orders = f.joined > 0 ? f.joined : levels_.rbegin()->first.first;
    attrs_.mean = common_.mean ? 1 : 0;
    space_ = space;
    if (space_ == RowSpace::kConstant || value_of(p_, common_.induction).space == RowSpace::kConstant)
      return false;
    if (!f.history) return terms_.mask() < 0 && !common_.mean && feed.space != RowSpace::kConstant;
    const PlanOp* embed = producer(f.value);
    const PlanOp* mask = terms_.mask() < 0 ? nullptr : producer(terms_.mask());
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
  bool keeps_inside(const std::vector<int32_t>& roots) {
    inside_.clear();
    const std::set<int32_t> ends = {common_.induction, common_.feed.value, terms_.mask()};
    std::vector<int32_t> next = roots;
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
        if (std::find(roots.begin(), roots.end(), v) != roots.end()) continue;
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

  /// The last match as an op in place of `last`.
  PlanOp made_op(const PlanOp& last, int32_t result) {
    const MicroFeed& f = common_.feed;
    PlanOp op;
    op.kind = OpKind::kCoAction;
    op.name = last.name;
    op.module = last.module;
    op.outputs = {result};
    op.attrs = attrs_;
    p_.notes.push_back("co-action: " + std::to_string(inside_.size()) + " ops of '" + op.name + "' in one");
    int32_t feed = f.value;
    if (f.history) {
      const PlanOp& embed = *producer(f.value);
      feed = embed.inputs[0];
      op.tables = embed.tables;
    } else {
      feed = in_space(f.value);
    }
    op.inputs = {in_space(common_.induction), feed};
    return op;
  }

  Plan& p_;
  Index ix_;
  Elements elements_;
  MicroProducts products_;
  MicroTerms terms_;
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
