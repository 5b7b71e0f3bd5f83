// 4 floats in one NEON register (the base of aarch64). Included by vec.hpp only.
#pragma once

#include <arm_neon.h>

namespace dpi::kernels::cpu::DPI_ISA {

struct Mask {
  uint32x4_t m;
  DPI_INLINE friend Mask operator&(Mask a, Mask b) { return {vandq_u32(a.m, b.m)}; }
};

struct Vec {
  static constexpr int W = 4;
  float32x4_t v;

  static DPI_INLINE Vec zero() { return {vdupq_n_f32(0)}; }
  static DPI_INLINE Vec all(float x) { return {vdupq_n_f32(x)}; }
  static DPI_INLINE Vec load(const float* p) { return {vld1q_f32(p)}; }
  // There are no masked loads and stores: n < W floats go one by one.
  static DPI_INLINE Vec load_part(const float* p, int64_t n) {
    float32x4_t part = vdupq_n_f32(0);
    if (n > 0) part = vld1q_lane_f32(p, part, 0);
    if (n > 1) part = vld1q_lane_f32(p + 1, part, 1);
    if (n > 2) part = vld1q_lane_f32(p + 2, part, 2);
    return {part};
  }
  DPI_INLINE void store(float* p) const { vst1q_f32(p, v); }
  DPI_INLINE void store_part(float* p, int64_t n) const {
    if (n > 0) vst1q_lane_f32(p, v, 0);
    if (n > 1) vst1q_lane_f32(p + 1, v, 1);
    if (n > 2) vst1q_lane_f32(p + 2, v, 2);
  }

  static DPI_INLINE uint16x4_t load_u16(const void* p, int64_t n) {
    uint16_t part[W] = {};
    std::memcpy(part, p, static_cast<size_t>(n >= W ? W : n) * sizeof(uint16_t));
    return vld1_u16(part);
  }
  static DPI_INLINE Vec load_f16(const void* p, int64_t n) {
    return {vcvt_f32_f16(vreinterpret_f16_u16(load_u16(p, n)))};
  }
  static DPI_INLINE Vec load_bf16(const void* p, int64_t n) {
    return {vreinterpretq_f32_u32(vshll_n_u16(load_u16(p, n), 16))};
  }
  static DPI_INLINE Vec load_lower_bf16(const uint32_t* p) {
    return {vreinterpretq_f32_u32(vshlq_n_u32(vld1q_u32(p), 16))};
  }
  static DPI_INLINE Vec load_upper_bf16(const uint32_t* p) {
    return {vreinterpretq_f32_u32(vandq_u32(vld1q_u32(p), vdupq_n_u32(0xffff0000u)))};
  }
  static DPI_INLINE Vec load_i8(const int8_t* p, int64_t n) {
    int8_t part[8] = {};
    std::memcpy(part, p, static_cast<size_t>(n >= W ? W : n));
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vld1_s8(part)))))};
  }

  DPI_INLINE float sum() const { return vaddvq_f32(v); }
  DPI_INLINE float largest() const { return vmaxvq_f32(v); }
  DPI_INLINE float largest_part(int64_t n) const {
    const int32x4_t lanes = {0, 1, 2, 3};
    const uint32x4_t first = vcltq_s32(lanes, vdupq_n_s32(static_cast<int32_t>(n)));
    return Vec{vbslq_f32(first, v, vdupq_n_f32(-__builtin_inff()))}.largest();
  }

  DPI_INLINE friend Vec operator+(Vec a, Vec b) { return {vaddq_f32(a.v, b.v)}; }
  DPI_INLINE friend Vec operator-(Vec a, Vec b) { return {vsubq_f32(a.v, b.v)}; }
  DPI_INLINE friend Vec operator*(Vec a, Vec b) { return {vmulq_f32(a.v, b.v)}; }
  DPI_INLINE friend Vec operator/(Vec a, Vec b) { return {vdivq_f32(a.v, b.v)}; }
  DPI_INLINE friend Mask operator<(Vec a, Vec b) { return {vcltq_f32(a.v, b.v)}; }
  DPI_INLINE friend Mask operator>(Vec a, Vec b) { return {vcgtq_f32(a.v, b.v)}; }
  DPI_INLINE friend Mask operator==(Vec a, Vec b) { return {vceqq_f32(a.v, b.v)}; }
};

DPI_INLINE Vec fma(Vec a, Vec b, Vec c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
/// Lane L of a times b, plus c: the same bits as fma(Vec::all(lane), b, c), without a register for the lane.
template <int L>
DPI_INLINE Vec fma_lane(Vec a, Vec b, Vec c) {
  return {vfmaq_laneq_f32(c.v, b.v, a.v, L)};
}
DPI_INLINE Vec select(Mask m, Vec yes, Vec no) { return {vbslq_f32(m.m, yes.v, no.v)}; }
// Not FMAX and FMIN: a NaN in a has to give b.
DPI_INLINE Vec max(Vec a, Vec b) { return select(a > b, a, b); }
DPI_INLINE Vec min(Vec a, Vec b) { return select(a < b, a, b); }
DPI_INLINE Vec abs(Vec a) { return {vabsq_f32(a.v)}; }
DPI_INLINE Vec sqrt(Vec a) { return {vsqrtq_f32(a.v)}; }
DPI_INLINE Vec round(Vec a) { return {vrndnq_f32(a.v)}; }
DPI_INLINE bool all(Mask m) { return vminvq_u32(m.m) != 0; }
DPI_INLINE Mask is_nan(Vec a) { return {vmvnq_u32(vceqq_f32(a.v, a.v))}; }

/// 2^n by its exponent bits, in two factors, as in vec_avx2.hpp.
DPI_INLINE Vec scale_pow2(Vec x, Vec n) {
  const int32x4_t e = vcvtnq_s32_f32(n.v);
  const int32x4_t half = vshrq_n_s32(e, 1);
  const int32x4_t bias = vdupq_n_s32(127);
  const int32x4_t f1 = vshlq_n_s32(vaddq_s32(half, bias), 23);
  const int32x4_t f2 = vshlq_n_s32(vaddq_s32(vsubq_s32(e, half), bias), 23);
  return {vmulq_f32(vmulq_f32(x.v, vreinterpretq_f32_s32(f1)), vreinterpretq_f32_s32(f2))};
}

}  // namespace dpi::kernels::cpu::DPI_ISA
