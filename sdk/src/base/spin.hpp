// Looking for something that another thread writes, for a bounded time.
#pragma once

#include <cstdint>

#include "base/clock.hpp"

namespace dpi {

/// Tells the processor that a loop looks and does nothing else.
inline void pause_looking() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks until `there` or for ns; whether it was there.
template <class There>
bool spin(int64_t ns, There&& there) {
  constexpr int kLooksPerClock = 32;
  if (ns <= 0) return there();
  const uint64_t end = monotonic_ns() + static_cast<uint64_t>(ns);
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (there()) return true;
      pause_looking();
    }
  } while (monotonic_ns() < end);
  return false;
}

}  // namespace dpi
