#include "plan/analysis/zero_one.hpp"

#include <dpi/kernels/index.hpp>

#include "plan/analysis/definition.hpp"
#include "plan/analysis/elements.hpp"

namespace dpi::plan {
namespace {

using kernels::BinaryKind;

constexpr int64_t kMostBits = 1 << 24;  // of all values: what a hostile bundle can ask for
constexpr int kDeepestMask = 64;        // ops behind one another

Bit turned(Bit b) { return b == Bit::kEither ? b : b == Bit::kOne ? Bit::kZero : Bit::kOne; }

/// The product of both, or the larger one, which is `strong` as soon as one of them is.
Bit join(Bit a, Bit b, Bit strong) {
  if (a == strong || b == strong) return strong;
  return a == Bit::kEither || b == Bit::kEither ? Bit::kEither : turned(strong);
}

}  // namespace

bool gives_bits(const PlanOp& op) {
  if (op.kind == OpKind::kMask) return true;
  if (op.kind != OpKind::kBinary) return false;
  const BinaryKind kind = std::get<kernels::BinaryAttrs>(op.attrs).kind;
  return kind >= BinaryKind::kLt && kind <= BinaryKind::kNe;
}

bool turns_bits(const PlanOp& op) {
  if (op.kind != OpKind::kUnary) return false;
  const auto& a = std::get<kernels::UnaryAttrs>(op.attrs);
  return a.kind == kernels::UnaryKind::kAffine && a.a == -1.0f && a.b == 1.0f && op.params[0] < 0 &&
         op.params[1] < 0;
}

const std::vector<Bit>* ZeroOne::of(int32_t v) {
  const auto [at, fresh] = known_.try_emplace(v);
  if (fresh && !value_of(p_, v).is_bags && depth_ < kDeepestMask) {
    floats_ += value_of(p_, v).dims.size();
    ++depth_;
    if (floats_ <= kMostBits) at->second = made(v);
    --depth_;
  }
  const Bits& bits = at->second;
  return bits.has_value() ? &*bits : nullptr;
}

ZeroOne::Bits ZeroOne::made(int32_t v) {
  if (const std::vector<float>* data = const_data(p_, v)) return numbers(*data);
  const PlanOp* op = producer_of(p_, ix_, v);
  if (op == nullptr) return std::nullopt;
  if (gives_bits(*op))
    return std::vector<Bit>(static_cast<size_t>(value_of(p_, v).dims.size()), Bit::kEither);
  if (op->kind == OpKind::kBinary) return combined(*op);
  const bool moves = op->kind == OpKind::kView || op->kind == OpKind::kConcat;
  if (moves || op->kind == OpKind::kBroadcastRows) return moved(*op);
  if (!turns_bits(*op)) return std::nullopt;
  const std::vector<Bit>* x = of(op->inputs[0]);
  if (x == nullptr) return std::nullopt;
  std::vector<Bit> out;
  for (const Bit b : *x) out.push_back(turned(b));
  return out;
}

ZeroOne::Bits ZeroOne::numbers(const std::vector<float>& data) const {
  std::vector<Bit> out;
  for (const float x : data) {
    if (x != 0 && x != 1) return std::nullopt;
    out.push_back(x == 1 ? Bit::kOne : Bit::kZero);
  }
  return out;
}

/// The op's definition, run over numbers that stand for bits.
ZeroOne::Bits ZeroOne::moved(const PlanOp& op) {
  std::vector<std::vector<float>> in;
  std::vector<kernels::Operand> operands(op.inputs.size());
  for (const int32_t v : op.inputs) {
    const std::vector<Bit>* bits = of(v);
    if (bits == nullptr) return std::nullopt;
    std::vector<float>& floats = in.emplace_back();
    floats.reserve(bits->size());
    for (const Bit b : *bits) floats.push_back(static_cast<float>(b));
  }
  for (size_t i = 0; i < in.size(); ++i)
    operands[i].tensor = tensor_over(in[i], value_of(p_, op.inputs[i]).dims);
  const Dims& dims = value_of(p_, op.outputs[0]).dims;
  std::vector<float> to(static_cast<size_t>(dims.size()));
  run_definition(op, operands, {}, tensor_over(to, dims));
  std::vector<Bit> out;
  out.reserve(to.size());
  for (const float x : to) out.push_back(static_cast<Bit>(x));
  return out;
}

ZeroOne::Bits ZeroOne::combined(const PlanOp& op) {
  const BinaryKind kind = std::get<kernels::BinaryAttrs>(op.attrs).kind;
  if (kind != BinaryKind::kMul && kind != BinaryKind::kMin && kind != BinaryKind::kMax) return std::nullopt;
  const std::vector<Bit>*x = of(op.inputs[0]), *y = of(op.inputs[1]);
  if (x == nullptr || y == nullptr) return std::nullopt;
  const Dims &dims = value_of(p_, op.outputs[0]).dims, &dx = value_of(p_, op.inputs[0]).dims,
             &dy = value_of(p_, op.inputs[1]).dims;
  const Bit strong = kind == BinaryKind::kMax ? Bit::kOne : Bit::kZero;
  std::vector<Bit> out;
  out.reserve(static_cast<size_t>(dims.size()));
  for (int64_t i = 0; i < dims.size(); ++i) {
    out.push_back(join((*x)[static_cast<size_t>(kernels::broadcast_offset(dims, i, dx))],
                       (*y)[static_cast<size_t>(kernels::broadcast_offset(dims, i, dy))], strong));
  }
  return out;
}

}  // namespace dpi::plan
