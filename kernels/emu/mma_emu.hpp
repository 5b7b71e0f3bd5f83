// Products of a warp, as the emulation runs PTX's mma: kernels/cuda/common/mma.hpp says which lane holds
// what.
#pragma once

#include "kernels/emu/simt_emu.hpp"

namespace dpi::emu {

enum class MmaElement : int { kTf32, kF16, kBf16 };

/// exchange_bits in a full warp, from lanes first + i * apart to out[i], i < n: simt_emu.cpp.
void exchange_many(uint64_t value, int first, int apart, int n, uint64_t* out, const char* op, Site at);

/// All lanes of a warp together. The registers are read and written for the lanes that hold them, in any
/// order, before any lane returns.
void mma(float (&c)[8], const uint32_t (&a)[4], const uint32_t (&b)[4], MmaElement element, Site at);

}  // namespace dpi::emu
