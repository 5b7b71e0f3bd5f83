#include "plan/passes/micro_mlp.hpp"

#include <algorithm>

namespace dpi::plan {

using kernels::UnaryKind;

const Element* side_by_side(const std::vector<Element>* all) {
  if (all == nullptr) return nullptr;
  const Element& first = all->front();
  for (size_t i = 0; i < all->size(); ++i) {
    if (!((*all)[i] == Element{first.value, first.index + static_cast<int64_t>(i), 1})) return nullptr;
  }
  return &first;
}

bool is_plain_function(const PlanOp& op) {
  if (op.kind != OpKind::kUnary) return false;
  const UnaryKind kind = std::get<kernels::UnaryAttrs>(op.attrs).kind;
  const auto absent = [](int32_t p) { return p < 0; };
  return kind != UnaryKind::kPrelu && kind != UnaryKind::kDice &&
         std::all_of(op.params.begin(), op.params.end(), absent);
}

MicroProducts::MicroProducts(const Plan& plan, const Index& index, Elements& elements)
    : p_(plan), ix_(index), elements_(elements), by_value_(plan.values.size(), -1) {
  for (const PlanOp& op : p_.ops) add(op);
}

const MicroProduct& MicroProducts::first_of(int32_t i) const {
  while ((*this)[i].previous >= 0) i = (*this)[i].previous;
  return (*this)[i];
}

const PlanOp* MicroProducts::producer(int32_t value) const {
  const int32_t i = ix_.producer[static_cast<size_t>(value)];
  return i < 0 ? nullptr : &p_.ops[static_cast<size_t>(i)];
}

const PlanOp* MicroProducts::only_user(int32_t value) const {
  return ix_.single_use(value) ? &p_.ops[static_cast<size_t>(ix_.users[static_cast<size_t>(value)][0])]
                               : nullptr;
}

void MicroProducts::add(const PlanOp& op) {
  MicroProduct m;
  if (!take_weights(op, m) || !take_input(op, m)) return;
  m.value = op.outputs[0];
  m.values = {m.value};
  take_bias(m);
  take_activation(m);
  by_value_[static_cast<size_t>(m.value)] = static_cast<int32_t>(all_.size());
  all_.push_back(std::move(m));
}

/// The second factor is a matrix out of a row that a lookup gives.
bool MicroProducts::take_weights(const PlanOp& op, MicroProduct& m) {
  if (op.kind != OpKind::kMatMul) return false;
  const auto& a = std::get<kernels::MatMulAttrs>(op.attrs);
  const Dims& w = value_of(p_, op.inputs[1]).dims;
  if (a.trans_a != 0 || a.trans_b != 0 || a.alpha != 1.0f || w.rank != 2) return false;
  if (value_of(p_, op.inputs[0]).dims.rank != 2) return false;
  const PlanOp* view = producer(op.inputs[1]);
  if (view == nullptr || (view->kind != OpKind::kView && view->kind != OpKind::kBroadcastRows)) return false;
  const Element* first = side_by_side(elements_.of(op.inputs[1]));
  const PlanOp* row = first == nullptr ? nullptr : producer(first->value);
  if (row == nullptr || row->kind != OpKind::kEmbed ||
      std::get<kernels::EmbedAttrs>(row->attrs).pooling == kernels::Pooling::kNone)
    return false;
  m.induction = first->value;
  m.weight = first->index;
  m.inputs = w.d[0];
  m.outputs = w.d[1];
  return true;
}

/// The first factor is what another level gives, row for row, or the feed.
bool MicroProducts::take_input(const PlanOp& op, MicroProduct& m) {
  const std::vector<Element>* x = elements_.of(op.inputs[0]);
  if (x == nullptr) return false;
  const int32_t from = ending_in(x->front().value);
  if (from < 0) return take_feed(*x, m);
  const MicroProduct& before = (*this)[from];
  const Element* first = side_by_side(x);
  const auto whole = static_cast<size_t>(value_of(p_, before.value).dims.size());
  if (first == nullptr || first->index != 0 || x->size() != whole || before.outputs != m.inputs) return false;
  m.previous = from;
  m.position = before.position + 1;
  return before.induction == m.induction && m.position < kernels::kMaxMicroLevels;
}

bool MicroProducts::take_feed(const std::vector<Element>& x, MicroProduct& m) {
  MicroFeed& f = m.feed;
  f.value = x.front().value;
  const PlanValue& value = value_of(p_, f.value);
  const PlanOp* from = producer(f.value);
  f.history = from != nullptr && from->kind == OpKind::kEmbed &&
              std::get<kernels::EmbedAttrs>(from->attrs).pooling == kernels::Pooling::kNone;
  f.positions = f.history ? value.dims.d[0] : 1;
  const int64_t wide = value.dims.size() / f.positions;
  while (f.dim < m.inputs && x[static_cast<size_t>(f.dim)].power == x.front().power) ++f.dim;
  f.first = x.front().index % wide;
  f.joined = f.dim < m.inputs ? static_cast<int32_t>(m.inputs / f.dim) : 0;
  if (m.inputs % f.dim != 0 || f.first + f.dim > wide) return false;
  for (size_t at = 0; at < x.size(); at += static_cast<size_t>(m.inputs)) {
    const MicroFeed::Row row{x[at].index / wide, x[at].power};
    if (f.joined > 0 && row.order != 1) return false;
    for (int64_t j = 0; j < m.inputs; ++j) {
      const auto power = static_cast<int32_t>(f.joined > 0 ? j / f.dim + 1 : row.order);
      if (!(x[at + static_cast<size_t>(j)] ==
            Element{f.value, row.position * wide + f.first + j % f.dim, power}))
        return false;
    }
    f.rows.push_back(row);
  }
  return true;
}

/// + b, where b are columns of the same looked-up row for every row of the product.
void MicroProducts::take_bias(MicroProduct& m) {
  const PlanOp* add = only_user(m.value);
  if (add == nullptr || add->kind != OpKind::kBinary ||
      std::get<kernels::BinaryAttrs>(add->attrs).kind != kernels::BinaryKind::kAdd)
    return;
  const int32_t other = add->inputs[0] == m.value ? add->inputs[1] : add->inputs[0];
  const Dims& dims = value_of(p_, other).dims;
  if (dims.size() != m.outputs || dims.at(-1) != m.outputs) return;
  if (!(value_of(p_, add->outputs[0]).dims == value_of(p_, m.value).dims)) return;
  const Element* first = side_by_side(elements_.of(other));
  if (first == nullptr || first->value != m.induction) return;
  m.bias = first->index;
  m.value = add->outputs[0];
  m.values.push_back(m.value);
}

void MicroProducts::take_activation(MicroProduct& m) {
  const PlanOp* f = only_user(m.value);
  if (f == nullptr || !is_plain_function(*f)) return;
  m.act = std::get<kernels::UnaryAttrs>(f->attrs);
  m.value = f->outputs[0];
  m.values.push_back(m.value);
}

}  // namespace dpi::plan
