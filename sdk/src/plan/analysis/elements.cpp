#include "plan/analysis/elements.hpp"

#include <numeric>

#include "plan/analysis/definition.hpp"

namespace dpi::plan {
namespace {

constexpr int64_t kElementFloats = sizeof(Element) / sizeof(float);
constexpr size_t kMostElements = 1 << 17;  // of one value
constexpr int32_t kHighestPower = 64;
constexpr int kDeepest = 64;  // ops between a value and what its elements are

}  // namespace

kernels::Tensor tensor_over(std::vector<float>& data, const Dims& dims) {
  kernels::Tensor t;
  t.data = data.data();
  t.rows = 1;
  t.row_stride = dims.size();
  t.dims = dims;
  return t;
}

const std::vector<Element>* Elements::of(int32_t v) {
  const PlanValue& value = value_of(p_, v);
  if (value.is_bags || value.dims.size() > static_cast<int64_t>(kMostElements) || depth_ > kDeepest)
    return nullptr;
  const auto [at, fresh] = known_.try_emplace(v);
  if (fresh && value.dims.size() * kElementFloats <= room(p_) - n_known_ * kElementFloats) {
    ++depth_;
    at->second = made(v);
    --depth_;
    n_known_ += static_cast<int64_t>(at->second.size());
  }
  return at->second.empty() ? nullptr : &at->second;
}

std::vector<Element> Elements::made(int32_t v) {
  const int32_t i = ix_.producer[static_cast<size_t>(v)];
  if (i < 0) return itself(v);
  const PlanOp& op = p_.ops[static_cast<size_t>(i)];
  if (op.kind == OpKind::kView || op.kind == OpKind::kConcat) return moved(op);
  if (op.kind == OpKind::kBroadcastRows) return copied(op);
  if (op.kind == OpKind::kBinary) return product(op);
  if (op.kind == OpKind::kUnary) return power(op);
  return itself(v);
}

std::vector<Element> Elements::itself(int32_t v) const {
  std::vector<Element> all(static_cast<size_t>(value_of(p_, v).dims.size()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = {v, static_cast<int64_t>(i), 1};
  return all;
}

std::vector<Element> Elements::copied(const PlanOp& op) {
  const std::vector<Element>* from = of(op.inputs[0]);
  return from == nullptr ? std::vector<Element>() : *from;
}

/// Where elements come from is what the op's definition makes of their numbers.
std::vector<Element> Elements::moved(const PlanOp& op) {
  std::vector<Element> from;
  std::vector<std::vector<float>> numbers(op.inputs.size());
  std::vector<kernels::Operand> inputs(op.inputs.size());
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    const std::vector<Element>* some = of(op.inputs[k]);
    if (some == nullptr || from.size() + some->size() > kMostElements) return {};
    numbers[k].resize(some->size());
    std::iota(numbers[k].begin(), numbers[k].end(), static_cast<float>(from.size()));  // exact below 2^24
    inputs[k].tensor = tensor_over(numbers[k], value_of(p_, op.inputs[k]).dims);
    from.insert(from.end(), some->begin(), some->end());
  }
  const Dims& dims = value_of(p_, op.outputs[0]).dims;
  std::vector<float> places(static_cast<size_t>(dims.size()));
  run_definition(op, inputs, {}, tensor_over(places, dims));
  std::vector<Element> out;
  out.reserve(places.size());
  for (const float place : places) out.push_back(from[static_cast<size_t>(place)]);
  return out;
}

std::vector<Element> Elements::product(const PlanOp& op) {
  const int32_t out = op.outputs[0];
  const auto n = static_cast<size_t>(value_of(p_, out).dims.size());
  if (std::get<kernels::BinaryAttrs>(op.attrs).kind != kernels::BinaryKind::kMul) return itself(out);
  const std::vector<Element>*x = of(op.inputs[0]), *y = of(op.inputs[1]);
  if (x == nullptr || y == nullptr || x->size() != n || y->size() != n) return itself(out);
  std::vector<Element> all = *x;
  for (size_t i = 0; i < n; ++i) {
    if (all[i].value != (*y)[i].value || all[i].index != (*y)[i].index) return itself(out);
    all[i].power += (*y)[i].power;
    if (all[i].power > kHighestPower) return itself(out);
  }
  return all;
}

/// x to a whole number.
std::vector<Element> Elements::power(const PlanOp& op) {
  const auto& a = std::get<kernels::UnaryAttrs>(op.attrs);
  const int32_t out = op.outputs[0];
  const bool whole = a.a == 2.0f || a.a == 3.0f || a.a == 4.0f || a.a == 5.0f;
  if (a.kind != kernels::UnaryKind::kPow || !whole) return itself(out);
  const std::vector<Element>* x = of(op.inputs[0]);
  if (x == nullptr) return itself(out);
  std::vector<Element> all = *x;
  for (Element& e : all) {
    e.power *= static_cast<int32_t>(a.a);
    if (e.power > kHighestPower) return itself(out);
  }
  return all;
}

}  // namespace dpi::plan
