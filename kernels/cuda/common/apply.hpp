// The scalar functions behind Unary in float32 (those of Binary: dpi/kernels/binary.hpp). NaN in gives NaN
// out.
#pragma once

#include <dpi/kernels/binary.hpp>
#include <dpi/kernels/unary.hpp>

#include "kernels/cuda/common/loads.hpp"
#include "kernels/cuda/common/simt.hpp"

namespace dpi::kernels::cuda {

/// Channel parameters of one op: arrays of n or of 1 elements, null when absent.
struct ChannelArrays {
  const float* p0 = nullptr;
  const float* p1 = nullptr;
  const float* p2 = nullptr;
  int32_t single0 = 0;  // the array has one element for all columns
  int32_t single1 = 0;
  int32_t single2 = 0;
};

inline ChannelArrays channel_arrays(const Param& p0, const Param& p1, const Param& p2) {
  return {p0.data, p1.data, p2.data, p0.dims.size() == 1, p1.dims.size() == 1, p2.dims.size() == 1};
}

struct Channel {
  float p0 = 0;
  float p1 = 0;
  float p2 = 0;
  bool present = false;
};

__device__ inline Channel channel_at(const ChannelArrays& c, int64_t column) {
  Channel v;
  if (c.p0 != nullptr) v.p0 = c.p0[c.single0 != 0 ? 0 : column];
  if (c.p1 != nullptr) v.p1 = c.p1[c.single1 != 0 ? 0 : column];
  if (c.p2 != nullptr) v.p2 = c.p2[c.single2 != 0 ? 0 : column];
  v.present = c.p0 != nullptr;
  return v;
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

__device__ inline float selu(float x) {
  const float alpha = 1.6732632423543772848f;
  const float scale = 1.0507009873554804934f;
  return scale * (x > 0 ? x : alpha * expm1f(x));
}

__device__ inline float gelu_tanh(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + tanhf(inner));
}

__device__ inline float dice(float x, const Channel& c) {
  const float gate = sigmoid(fmaf(c.p1, x, c.p2));
  return gate * x + c.p0 * (1.0f - gate) * x;
}

// Not inlined: their reduction of large arguments takes registers that every kernel with an end would hold.
template <bool kCos>
__device__ DPI_COLD float wave(float x) {
  return kCos ? cosf(x) : sinf(x);
}

// The kinds with a parameter, and the rare ones.
__device__ inline float apply_shaped(const UnaryAttrs& u, float x, const Channel& c) {
  switch (u.kind) {
    case UnaryKind::kLeaky:
      return x < 0 ? u.a * x : x;
    case UnaryKind::kElu:
      return x < 0 ? u.a * expm1f(x) : x;
    case UnaryKind::kPow:
      return powf(x, u.a);
    case UnaryKind::kClamp:
      return x < u.a ? u.a : x > u.b ? u.b : x;
    case UnaryKind::kAffine:
      return c.present ? fmaf(c.p0, x, c.p1) : fmaf(u.a, x, u.b);
    case UnaryKind::kPrelu:
      return x < 0 ? c.p0 * x : x;
    case UnaryKind::kDice:
      return dice(x, c);
    case UnaryKind::kSin:
      return wave<false>(x);
    case UnaryKind::kCos:
      return wave<true>(x);
    case UnaryKind::kSign:
      return x > 0 ? 1.0f : x < 0 ? -1.0f : x == 0 ? 0.0f : x;
    default:
      return x;
  }
}

__device__ inline float apply_unary(const UnaryAttrs& u, float x, const Channel& c) {
  switch (u.kind) {
    case UnaryKind::kIdentity:
      return x;
    case UnaryKind::kRelu:
      return x < 0 ? 0 : x;
    case UnaryKind::kSigmoid:
      return sigmoid(x);
    case UnaryKind::kTanh:
      return tanhf(x);
    case UnaryKind::kExp:
      return expf(x);
    case UnaryKind::kLog:
      return logf(x);
    case UnaryKind::kAbs:
      return fabsf(x);
    case UnaryKind::kSqrt:
      return sqrtf(x);
    case UnaryKind::kRsqrt:
      return 1.0f / sqrtf(x);
    case UnaryKind::kSilu:
      return x * sigmoid(x);
    case UnaryKind::kSelu:
      return selu(x);
    case UnaryKind::kGeluErf:
      return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case UnaryKind::kGeluTanh:
      return gelu_tanh(x);
    case UnaryKind::kSoftplus:
      return (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
    default:
      return apply_shaped(u, x, c);
  }
}

}  // namespace dpi::kernels::cuda
