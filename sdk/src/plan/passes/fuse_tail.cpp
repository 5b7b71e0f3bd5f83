// The end of each head: dot products of all branches + scalars + bias + activation in one Tail op.
#include <algorithm>
#include <map>
#include <utility>

#include "plan/analysis/decisions.hpp"
#include "plan/analysis/form.hpp"
#include "plan/analysis/shift.hpp"
#include "plan/passes/passes.hpp"
#include "plan/passes/scalars.hpp"
#include "plan/passes/share_rows.hpp"

namespace dpi::plan {
namespace {

bool parameterless(const PlanOp& op) {
  const auto kind = std::get<kernels::UnaryAttrs>(op.attrs).kind;
  return kind != kernels::UnaryKind::kAffine && kind != kernels::UnaryKind::kPrelu &&
         kind != kernels::UnaryKind::kDice;
}

/// Terms of one element and factor 1 with no bias: nothing to gain.
bool trivial(const LinearForm& f, int32_t z) {
  return f.terms.empty() || (f.terms.size() == 1 && f.terms[0].value == z);
}

class TailFuser {
 public:
  TailFuser(Plan& plan, bool fold, bool sum_shared)
      : p_(plan), fold_(fold), sum_shared_(sum_shared), scalars_(plan) {}

  void run() {
    const Index ix = index_of(p_);
    ahead_ = ahead_of_decisions(p_, ix);
    std::vector<int32_t> done;
    for (size_t h = 0; h < p_.heads.size(); ++h) {
      const int32_t v = p_.heads[h].value;
      bool seen = false;
      for (int32_t d : done) seen |= d == v;
      if (!seen && ix.producer[static_cast<size_t>(v)] >= 0) end_with_tail(ix, v);
      done.push_back(v);
    }
    scalars_.finish();
    for (PlanOp& op : tails_) p_.ops.push_back(std::move(op));
  }

 private:
  void end_with_tail(const Index& ix, int32_t v) {
    const int32_t top = ix.producer[static_cast<size_t>(v)];
    PlanOp tail;
    kernels::TailAttrs attrs;
    int32_t z = v;
    if (p_.ops[static_cast<size_t>(top)].kind == OpKind::kUnary &&
        parameterless(p_.ops[static_cast<size_t>(top)])) {
      attrs.act = std::get<kernels::UnaryAttrs>(p_.ops[static_cast<size_t>(top)].attrs);
      z = p_.ops[static_cast<size_t>(top)].inputs[0];
    }
    const int32_t z_op = ix.producer[static_cast<size_t>(z)];
    if (z_op < 0 || value_of(p_, z).space != RowSpace::kItem || written_[z]) return;
    if (ahead_[static_cast<size_t>(z)] != 0 && rounds_alone(p_.ops[static_cast<size_t>(z_op)].kind)) return;
    LinearForm form =
        linear_form(p_, ix, z, {1.0}, fold_ ? FormDepth::kFull : FormDepth::kSums, room(p_) - taken_);
    taken_ += form.floats;
    for (const std::string& op : form.heavy) note_heavy_shift(p_, op);
    for (const std::string& op : form.large) note_no_room(p_, op);
    if (trivial(form, z)) return;
    if (fold_) scalars_.take(ix, form);
    attrs.bias = static_cast<float>(form.bias);
    tail.kind = OpKind::kTail;
    tail.name = p_.ops[static_cast<size_t>(top)].name;
    tail.module = p_.ops[static_cast<size_t>(top)].module;
    tail.attrs = attrs;
    const bool z_wanted =
        z != v && (ix.users[static_cast<size_t>(z)].size() > 1 || ix.head_uses[static_cast<size_t>(z)] > 0);
    tail.outputs = {z_wanted ? z : z == v ? separate_logit(v) : -1, v};
    if (sum_shared_) sum_once(ix, tail, form);
    for (const FormTerm& t : form.terms) add_read_part(tail, t);
    kill(p_.ops[static_cast<size_t>(top)]);
    if (z_wanted) kill(p_.ops[static_cast<size_t>(z_op)]);
    written_[z] = true;
    tails_.push_back(std::move(tail));
  }

  /// A head that names one value as both score and logit: the Tail writes it twice.
  int32_t separate_logit(int32_t v) {
    for (PlanHead& h : p_.heads) {
      if (h.value != v || h.logit != v) continue;
      h.logit = add_value(p_, h.name + "/logit", value_of(p_, v).dims, RowSpace::kItem);
      return h.logit;
    }
    return -1;
  }

  /// The terms that shared rows give are summed there: one number is repeated for the items.
  void sum_once(const Index& ix, const PlanOp& tail, LinearForm& form) {
    const auto is_shared = [&](const FormTerm& t) { return repeated_value(p_, ix, t.value) >= 0; };
    int64_t elements = 0;
    for (const FormTerm& t : form.terms) elements += is_shared(t) ? static_cast<int64_t>(t.coef.size()) : 0;
    if (elements < 2) return;  // a sum of one
    PlanOp sum, repeat;
    sum.kind = OpKind::kTail;
    sum.name = tail.name + "/shared";
    sum.module = tail.module;
    sum.attrs = kernels::TailAttrs{};
    sum.outputs = {-1, add_value(p_, sum.name, dims_of({1}), RowSpace::kShared)};
    std::vector<FormTerm> rest;
    for (FormTerm& t : form.terms) {
      if (!is_shared(t)) {
        rest.push_back(std::move(t));
        continue;
      }
      t.value = repeated_value(p_, ix, t.value);
      add_read_part(sum, t);
    }
    repeat.kind = OpKind::kBroadcastRows;
    repeat.name = sum.name + "@item";
    repeat.inputs = {sum.outputs[1]};
    repeat.outputs = {add_value(p_, repeat.name, dims_of({1}), RowSpace::kItem)};
    rest.push_back({repeat.outputs[0], {1.0}, {}});
    form.terms = std::move(rest);
    tails_.push_back(std::move(sum));
    tails_.push_back(std::move(repeat));
  }

  /// Elements that slices left out are not read: 0 x infinity is NaN.
  void add_read_part(PlanOp& tail, const FormTerm& t) {
    const auto n = static_cast<int64_t>(t.read.size());
    const auto at = [&](int64_t i) { return t.read.begin() + i; };
    if (std::find(at(0), at(n), false) == at(n)) return add_term(tail, t);
    const bool is_flat = value_of(p_, t.value).dims.rank == 1;
    const int32_t flat = is_flat ? t.value : view(t.value, kernels::ViewKind::kReshape, 0, n);
    for (int64_t begin = 0, end = 0; begin < n; begin = end) {
      begin = std::find(at(begin), at(n), true) - at(0);
      end = std::find(at(begin), at(n), false) - at(0);
      if (begin == n) break;
      add_term(tail, {view(flat, kernels::ViewKind::kSlice, begin, end),
                      {t.coef.begin() + begin, t.coef.begin() + end},
                      {}});
    }
  }

  /// Elements [begin, end) of a value as a vector.
  int32_t view(int32_t value, kernels::ViewKind kind, int64_t begin, int64_t end) {
    const PlanValue from = value_of(p_, value);
    PlanOp op;
    op.kind = OpKind::kView;
    op.name = from.name + "/" + std::to_string(begin) + ":" + std::to_string(end);
    kernels::ViewAttrs attrs;
    attrs.kind = kind;
    attrs.begin = begin;
    attrs.end = end;
    attrs.dims = dims_of({end - begin});
    op.attrs = attrs;
    op.inputs = {value};
    op.outputs = {add_value(p_, op.name, dims_of({end - begin}), from.space)};
    tails_.push_back(op);
    return op.outputs[0];
  }

  void add_term(PlanOp& tail, const FormTerm& t) {
    tail.inputs.push_back(t.value);
    if (t.coef.size() == 1 && t.coef[0] == 1.0) {
      tail.params.push_back(-1);
      return;
    }
    std::vector<float> w(t.coef.begin(), t.coef.end());
    const auto n = static_cast<int64_t>(w.size());
    tail.params.push_back(
        add_param(p_, tail.name + ".w" + std::to_string(tail.inputs.size() - 1), dims_of({n}), std::move(w)));
  }

  Plan& p_;
  std::vector<char> ahead_;  // by value: ahead_of_decisions
  bool fold_;
  bool sum_shared_;
  int64_t taken_ = 0;  // by forms of all heads
  Scalars scalars_;
  std::vector<PlanOp> tails_;
  std::map<int32_t, bool> written_;
};

}  // namespace

Result<Plan> fuse_tail(Plan p, bool fold, bool sum_shared) {
  TailFuser(p, fold, sum_shared).run();
  return cleanup(std::move(p));
}

}  // namespace dpi::plan
