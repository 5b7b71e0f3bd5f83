#include "plan/passes/micro_terms.hpp"

#include <dpi/kernels/index.hpp>

namespace dpi::plan {
namespace {

using kernels::BinaryKind;
using kernels::ReduceKind;
using kernels::UnaryKind;

constexpr size_t kMostTerms = 1 << 16;   // of one element
constexpr int kDeepestSum = 6;           // ops between a result and a level, moves not counted
constexpr float kNoLimit = 16777216.0f;  // more positions than a float counts

/// Terms [begin, end) are times the mask at position t: each is of that position, and not masked before.
bool put_mask(std::vector<MicroTerm>* out, size_t begin, int64_t t) {
  for (size_t k = begin; k < out->size(); ++k) {
    if ((*out)[k].masked || (*out)[k].row.position != t) return false;
    (*out)[k].masked = true;
  }
  return true;
}

bool put_mean(std::vector<MicroTerm>* out, size_t begin) {
  for (size_t k = begin; k < out->size(); ++k) {
    if ((*out)[k].mean) return false;
    (*out)[k].mean = true;
  }
  return true;
}

}  // namespace

const PlanOp* MicroTerms::producer(int32_t v) const {
  const int32_t i = ix_.producer[static_cast<size_t>(v)];
  return i < 0 ? nullptr : &p_.ops[static_cast<size_t>(i)];
}

bool MicroTerms::of(const Element& e, int depth, std::vector<MicroTerm>* out) {
  if (e.power != 1 || out->size() > kMostTerms || depth > kDeepestSum || --left_ < 0) return false;
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
  if (op->kind != OpKind::kBinary) return false;
  return std::get<kernels::BinaryAttrs>(op->attrs).kind == BinaryKind::kMul
             ? masked(*op, e.index, depth, out)
             : divided(*op, e.index, depth, out);
}

bool MicroTerms::at(int32_t value, int64_t index, int depth, std::vector<MicroTerm>* out) {
  const std::vector<Element>* all = elements_.of(value);
  return all != nullptr && of((*all)[static_cast<size_t>(index)], depth + 1, out);
}

bool MicroTerms::is_mask(const Element& e, int64_t t) {
  const PlanOp* op = producer(e.value);
  if (op == nullptr || op->kind != OpKind::kMask || e.power != 1 || e.index != t) return false;
  if (mask_ < 0) mask_ = e.value;
  return mask_ == e.value;
}

/// mask [1, T] x [T, n].
bool MicroTerms::masked_product(const PlanOp& op, int64_t index, int depth, std::vector<MicroTerm>* out) {
  const auto& a = std::get<kernels::MatMulAttrs>(op.attrs);
  const Dims& x = value_of(p_, op.inputs[1]).dims;
  const std::vector<Element>* mask = elements_.of(op.inputs[0]);
  const int64_t n = x.at(-1);
  if (a.trans_a != 0 || a.trans_b != 0 || a.alpha != 1.0f || x.rank != 2 || mask == nullptr) return false;
  if (value_of(p_, op.inputs[0]).dims.size() != x.d[0] || index >= n) return false;
  for (int64_t t = 0; t < x.d[0]; ++t) {
    const size_t begin = out->size();
    if (!is_mask((*mask)[static_cast<size_t>(t)], t) || !at(op.inputs[1], t * n + index, depth, out))
      return false;
    if (!put_mask(out, begin, t)) return false;
  }
  return true;
}

/// A term times the mask at its position, as an element of a product that repeats what is smaller.
bool MicroTerms::masked(const PlanOp& op, int64_t index, int depth, std::vector<MicroTerm>* out) {
  const Dims& dims = value_of(p_, op.outputs[0]).dims;
  for (size_t side = 0; side < 2; ++side) {
    const int32_t x = op.inputs[side], factor = op.inputs[1 - side];
    const std::vector<Element>* mask = elements_.of(factor);
    if (mask == nullptr) return false;
    const auto place = static_cast<size_t>(kernels::broadcast_offset(dims, index, value_of(p_, factor).dims));
    const int64_t t = (*mask)[place].index;
    if (!is_mask((*mask)[place], t)) continue;
    const size_t begin = out->size();
    return at(x, kernels::broadcast_offset(dims, index, value_of(p_, x).dims), depth, out) &&
           put_mask(out, begin, t);
  }
  return false;
}

bool MicroTerms::reduced(const PlanOp& op, int64_t index, int depth, std::vector<MicroTerm>* out) {
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
    if (!at(op.inputs[0], (index / inner * n + t) * inner + index % inner, depth, out)) return false;
    if (!has_mask) continue;
    const auto place = static_cast<size_t>(index / inner * n + t);
    if (place >= mask->size() || !is_mask((*mask)[place], t) || !put_mask(out, begin, t)) return false;
  }
  return !mean || put_mean(out, all);
}

/// A sum over the positions that count, divided by how many do, 1 where none does.
bool MicroTerms::divided(const PlanOp& op, int64_t index, int depth, std::vector<MicroTerm>* out) {
  if (std::get<kernels::BinaryAttrs>(op.attrs).kind != BinaryKind::kDiv) return false;
  const int64_t n = value_of(p_, op.outputs[0]).dims.size();
  if (value_of(p_, op.inputs[0]).dims.size() != n || !is_count(op.inputs[1])) return false;
  const size_t begin = out->size();
  return at(op.inputs[0], index, depth, out) && put_mean(out, begin);
}

/// max(1, the number of positions that count), one element.
bool MicroTerms::is_count(int32_t v) {
  const std::vector<Element>* all = elements_.of(v);
  if (all == nullptr || all->size() != 1 || all->front().power != 1) return false;
  const PlanOp* op = producer(all->front().value);
  if (op == nullptr) return false;
  if (op->kind == OpKind::kUnary) {
    const auto& a = std::get<kernels::UnaryAttrs>(op->attrs);
    return a.kind == UnaryKind::kClamp && a.a == 1.0f && a.b >= kNoLimit && is_mask_sum(op->inputs[0]);
  }
  if (op->kind != OpKind::kBinary || std::get<kernels::BinaryAttrs>(op->attrs).kind != BinaryKind::kMax)
    return false;
  double one = 0;
  for (size_t side = 0; side < 2; ++side) {
    if (scalar_const(p_, op->inputs[side], &one) && one == 1.0) return is_mask_sum(op->inputs[1 - side]);
  }
  return false;
}

bool MicroTerms::is_mask_sum(int32_t v) {
  const std::vector<Element>* all = elements_.of(v);
  const PlanOp* op = all == nullptr || all->size() != 1 ? nullptr : producer(all->front().value);
  if (op == nullptr || op->kind != OpKind::kReduce || op->inputs[1] >= 0) return false;
  const std::vector<Element>* mask = elements_.of(op->inputs[0]);
  if (mask == nullptr || std::get<kernels::ReduceAttrs>(op->attrs).kind != ReduceKind::kSum) return false;
  for (size_t t = 0; t < mask->size(); ++t) {
    if (--left_ < 0 || !is_mask((*mask)[t], static_cast<int64_t>(t))) return false;
  }
  return static_cast<int64_t>(mask->size()) == value_of(p_, mask_).dims.size();
}

}  // namespace dpi::plan
