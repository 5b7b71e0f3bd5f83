// A model of AMX tile registers on any machine, instruction by instruction as Intel's manual (SDM, volume 2)
// defines them: kernels/cpu/gemm_amx.cpp compiled for it gives the bytes that the processor gives.
//
// The state is the thread's, as the registers are. An instruction that would fault (#UD or #GP) does nothing
// and leaves word of it in tile_fault().
#pragma once

#include <cstdint>

#include "kernels/cpu/tile_config.hpp"

namespace dpi::emu {

/// The first fault of this thread since the last call of clear_tile_fault(); null = none.
const char* tile_fault();
void clear_tile_fault();

/// Are this thread's registers configured?
bool tiles_in_use();

/// Instructions with the numbers of their registers.
void tile_configure(const kernels::cpu::TileConfig& c);
void tile_release();
void tile_zero(int t);
void tile_load(int t, const void* at, int64_t step);
void tile_store(int t, void* at, int64_t step);
void tile_multiply_bf16(int sums, int a, int b);                                      // TDPBF16PS
void tile_multiply_int8(int sums, int a, int b, bool a_is_signed, bool b_is_signed);  // TDPB[SU][SU]D

/// a b + c and a + b as the units of these registers have them: operands and results below 2^-126 are zeros
/// of their sign; what rounding lifts to 2^-126 stays.
float tile_fma(float a, float b, float c);
float tile_add(float a, float b);

/// Registers as kernels/cpu/simd/tile_registers.hpp wants them.
struct TileModel {
  static void configure(const kernels::cpu::TileConfig& c) { tile_configure(c); }
  static void release() { tile_release(); }
  template <int T>
  static void zero() {
    tile_zero(T);
  }
  template <int T>
  static void load(const void* at, int64_t step) {
    tile_load(T, at, step);
  }
  template <int T>
  static void store(void* at, int64_t step) {
    tile_store(T, at, step);
  }
  template <int S, int A, int B>
  static void multiply_bf16() {
    tile_multiply_bf16(S, A, B);
  }
  template <int S, int A, int B>
  static void multiply_int8() {
    tile_multiply_int8(S, A, B, false, true);
  }
};

}  // namespace dpi::emu
