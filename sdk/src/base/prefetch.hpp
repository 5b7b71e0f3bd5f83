// Asking for a cache line before it is read.
#pragma once

namespace dpi {

/// The empty statement keeps GCC from taking a function that only asks for free of effects: it leaves out the
/// calls of such a function, with optimization and without a word.
[[gnu::always_inline]] inline void prefetch_line(const void* at) {
  __builtin_prefetch(at);
  asm volatile("");
}

}  // namespace dpi
