// AMX tile registers: `Tiles`, the processor's own or, in the set tile_model, the model that tests run on any
// machine. Included by sources of these two sets only. Registers are numbered when compiled, as instructions
// have it; they belong to the thread.
#pragma once

#include "kernels/cpu/simd/vec.hpp"
#include "kernels/cpu/tile_config.hpp"

#if defined(DPI_ISA_TILE_MODEL)
#include "kernels/emu/tile_model.hpp"

namespace dpi::kernels::cpu::DPI_ISA {
using Tiles = emu::TileModel;
}
#else

namespace dpi::kernels::cpu::DPI_ISA {

/// In assembler: GCC 12 takes the numbers of its own forms as text, and has no word about memory in them.
struct Tiles {
  static DPI_INLINE void configure(const TileConfig& c) { __asm__ volatile("ldtilecfg %0" : : "m"(c)); }

  /// Nothing is configured any more, and the thread's state is small again.
  static DPI_INLINE void release() { __asm__ volatile("tilerelease"); }

  template <int T>
  static DPI_INLINE void zero() {
    __asm__ volatile("tilezero %%tmm%c0" : : "i"(T));
  }

  /// Rows of register T lie `step` bytes apart.
  template <int T>
  static DPI_INLINE void load(const void* at, int64_t step) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(at), "r"(step), "i"(T) : "memory");
  }

  template <int T>
  static DPI_INLINE void store(void* at, int64_t step) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(at), "r"(step), "i"(T) : "memory");
  }

  /// S += A B, pairs of bf16 into float32.
  template <int S, int A, int B>
  static DPI_INLINE void multiply_bf16() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(S), "i"(A), "i"(B));
  }

  /// S += A B, four bytes each, of A without a sign, of B with one, into 32 bits.
  template <int S, int A, int B>
  static DPI_INLINE void multiply_int8() {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(S), "i"(A), "i"(B));
  }
};

}  // namespace dpi::kernels::cpu::DPI_ISA
#endif
