#include "apply.hpp"

#include <cmath>
#include <numbers>

namespace dpi::kernels::ref {
namespace {

// log(1 + e^x) without overflow for large x.
double softplus(double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }

double selu(double x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return kScale * (x > 0 ? x : kAlpha * std::expm1(x));
}

// erfc: below -5 the digits of 1 + erf cancel.
double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

double gelu_tanh(double x) {
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

double clamp(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

double dice(double x, const ChannelParams& p) {
  const double gate = sigmoid(p.p1 * x + p.p2);
  return gate * x + p.p0 * (1 - gate) * x;
}

double channel(const Param& p, int64_t c) {
  if (p.data == nullptr) return 0;
  return p.data[p.dims.size() == 1 ? 0 : c];
}

}  // namespace

ChannelParams channel_params(const Param& p0, const Param& p1, const Param& p2, int64_t c) {
  return {channel(p0, c), channel(p1, c), channel(p2, c), p0.data != nullptr};
}

double apply_unary(const UnaryAttrs& attrs, double x, const ChannelParams& p) {
  switch (attrs.kind) {
    case UnaryKind::kIdentity:
      return x;
    case UnaryKind::kRelu:
      return x < 0 ? 0 : x;
    case UnaryKind::kSigmoid:
      return sigmoid(x);
    case UnaryKind::kTanh:
      return std::tanh(x);
    case UnaryKind::kExp:
      return std::exp(x);
    case UnaryKind::kLog:
      return std::log(x);
    case UnaryKind::kAbs:
      return std::fabs(x);
    case UnaryKind::kSqrt:
      return std::sqrt(x);
    case UnaryKind::kRsqrt:
      return 1 / std::sqrt(x);
    case UnaryKind::kSilu:
      return x * sigmoid(x);
    case UnaryKind::kSelu:
      return selu(x);
    case UnaryKind::kGeluErf:
      return gelu_erf(x);
    case UnaryKind::kGeluTanh:
      return gelu_tanh(x);
    case UnaryKind::kSoftplus:
      return softplus(x);
    case UnaryKind::kLeaky:
      return x < 0 ? attrs.a * x : x;
    case UnaryKind::kElu:
      return x < 0 ? attrs.a * std::expm1(x) : x;
    case UnaryKind::kPow:
      return std::pow(x, static_cast<double>(attrs.a));
    case UnaryKind::kClamp:
      return clamp(x, attrs.a, attrs.b);
    case UnaryKind::kAffine:
      return p.present ? p.p0 * x + p.p1 : double{attrs.a} * x + attrs.b;
    case UnaryKind::kPrelu:
      return x < 0 ? p.p0 * x : x;
    case UnaryKind::kDice:
      return dice(x, p);
    case UnaryKind::kSin:
      return std::sin(x);
    case UnaryKind::kCos:
      return std::cos(x);
    case UnaryKind::kSign:
      return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;
  }
  return x;
}

}  // namespace dpi::kernels::ref
