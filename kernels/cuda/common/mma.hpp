// The two instructions of tensor-core products, for whole warps: ldmatrix and mma, in inline PTX under nvcc,
// under the emulation lane by lane as PTX defines them, so that which lane holds what is tested there too.
// All 32 lanes call each function together. The emulation adds up as tensor cores do
// (kernels/emu/tensor_core.hpp).
#pragma once

#include "kernels/cuda/common/narrow.hpp"

#ifndef __CUDACC__
#include "kernels/emu/mma_emu.hpp"
#endif

namespace dpi::kernels::cuda {

/// Four matrices of 8 rows of 16 bytes from shared memory. Lane 8 m + i gives the address of row i of matrix
/// m, a multiple of 16; of each matrix every lane gets 4 bytes: r[m] = bytes 4 (lane % 4) .. of row lane / 4.
/// Rows whose addresses differ by odd multiples of 16 bytes are read without bank conflicts.
#ifdef __CUDACC__
__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], const void* row) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
#else
inline void load_matrices(uint32_t (&r)[4], const void* row, const char* file = __builtin_FILE(),
                          int line = __builtin_LINE()) {
  const emu::Site at{file, line};
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0)  // a mask that no lane is in ends the launch
    emu::exchange_bits(0, 0, 0, "a matrix row at an address that is not aligned", at);
  const int lane = emu::lane();
  uint64_t rows[4];
  emu::exchange_many(reinterpret_cast<uintptr_t>(row), lane / 4, 8, 4, rows, "ldmatrix", at);
  for (int m = 0; m < 4; ++m)
    memcpy(&r[m], reinterpret_cast<const char*>(static_cast<uintptr_t>(rows[m])) + lane % 4 * 4, 4);
}
#endif

/// c += a b over 8 tf32 or 16 16-bit elements of depth: 16 rows x 16 columns, two of the hardware's products
/// of 8 columns (c[4 h ..], b[2 h ..]: columns 8 h ..). Of a tf32 element the lowest 13 bits are not looked
/// at. With g = lane / 4 and t = lane % 4, and a pair being elements 2t, 2t + 1 of 16 bits, or element t of
/// tf32:
///   a[0], a[1]: the pair of rows g and g + 8;  a[2], a[3]: those of the second half of the depth
///   b[2h], b[2h + 1]: the pair of column 8h + g, first and second half of the depth
///   c[4h], c[4h + 1]: row g, columns 8h + 2t, + 1;  c[4h + 2], c[4h + 3]: those of row g + 8
#ifdef __CUDACC__
#define DPI_MMA(shape, h)                                                                                   \
  asm volatile("mma.sync.aligned." shape " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(c[4 * (h)]), "+f"(c[4 * (h) + 1]), "+f"(c[4 * (h) + 2]), "+f"(c[4 * (h) + 3])         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[2 * (h)]), "r"(b[2 * (h) + 1]))
__device__ __forceinline__ void mma_tf32(float (&c)[8], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
  DPI_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", 0);
  DPI_MMA("m16n8k8.row.col.f32.tf32.tf32.f32", 1);
}
__device__ __forceinline__ void mma_f16(float (&c)[8], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
  DPI_MMA("m16n8k16.row.col.f32.f16.f16.f32", 0);
  DPI_MMA("m16n8k16.row.col.f32.f16.f16.f32", 1);
}
__device__ __forceinline__ void mma_bf16(float (&c)[8], const uint32_t (&a)[4], const uint32_t (&b)[4]) {
  DPI_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", 0);
  DPI_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", 1);
}
#undef DPI_MMA

/// The bits of v rounded to tf32, ties away from zero.
__device__ __forceinline__ uint32_t tf32_bits(float v) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}
__device__ __forceinline__ float float_of_bits(uint32_t bits) { return __uint_as_float(bits); }
/// Two floats at once, to an address that is a multiple of 8.
__device__ __forceinline__ void store_pair(float* p, float x, float y) {
  *reinterpret_cast<float2*>(p) = make_float2(x, y);
}
#else
inline void mma_tf32(float (&c)[8], const uint32_t (&a)[4], const uint32_t (&b)[4],
                     const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emu::mma(c, a, b, emu::MmaElement::kTf32, {file, line});
}
inline void mma_f16(float (&c)[8], const uint32_t (&a)[4], const uint32_t (&b)[4],
                    const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emu::mma(c, a, b, emu::MmaElement::kF16, {file, line});
}
inline void mma_bf16(float (&c)[8], const uint32_t (&a)[4], const uint32_t (&b)[4],
                     const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  emu::mma(c, a, b, emu::MmaElement::kBf16, {file, line});
}
inline void store_pair(float* p, float x, float y) {
  struct alignas(8) Pair {
    float v[2];
  };
  *reinterpret_cast<Pair*>(p) = {{x, y}};
}
inline float float_of_bits(uint32_t bits) {
  float v;
  memcpy(&v, &bits, sizeof(v));
  return v;
}
inline uint32_t tf32_bits(float v) {
  const float rounded = tf32_of(v);
  uint32_t bits;
  memcpy(&bits, &rounded, sizeof(bits));
  return bits;
}
#endif

}  // namespace dpi::kernels::cuda
