#include "kernels/cpu/lane_math.hpp"

#include <cmath>

namespace dpi::kernels::cpu {

float lane_unary(UnaryKind kind, float a, float x) {
  const double v = x;
  switch (kind) {
    case UnaryKind::kLog:
      return static_cast<float>(std::log(v));
    case UnaryKind::kSoftplus:
      return static_cast<float>((v > 0 ? v : 0.0) + std::log1p(std::exp(-std::fabs(v))));
    case UnaryKind::kPow:
      return static_cast<float>(std::pow(v, static_cast<double>(a)));
    case UnaryKind::kSin:
      return static_cast<float>(std::sin(v));
    case UnaryKind::kCos:
      return static_cast<float>(std::cos(v));
    default:
      return x;
  }
}

float lane_binary(BinaryKind kind, float x, float y) { return apply_binary(kind, x, y); }

}  // namespace dpi::kernels::cpu
