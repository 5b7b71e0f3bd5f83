// Asking for cache lines before they are read. Included by sources compiled per instruction set only.
#pragma once

#include "kernels/cpu/simd/vec.hpp"

namespace dpi::kernels::cpu::DPI_ISA {

/// Asks for one cache line. The empty statement keeps GCC from taking a function that only asks for free of
/// effects: it leaves out the calls of such a function, with optimization and without a word.
DPI_INLINE void prefetch_line(const void* at) {
  __builtin_prefetch(at, 0, 3);
  __asm__ volatile("");
}

/// Asks for the cache lines of bytes [at, at + bytes); each line once: a second request for a line takes a
/// place in the processor's queue of outstanding misses.
DPI_INLINE void prefetch_bytes(const char* at, int64_t bytes) {
  const char* const end = at + bytes;
  at -= reinterpret_cast<uintptr_t>(at) % 64;
  do {
    prefetch_line(at);
    at += 64;
  } while (at < end);
}

}  // namespace dpi::kernels::cpu::DPI_ISA
