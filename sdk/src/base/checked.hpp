// Arithmetic on sizes that come from a file or a request: the result, or nothing on overflow.
#pragma once

#include <cstdint>
#include <optional>

namespace dpi {

/// a * b of non-negative values, or nothing when it does not fit in int64.
inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t r = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

/// a + b of non-negative values, or nothing when it does not fit in int64.
inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t r = 0;
  if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}

/// `v` rounded up to a multiple of `to` (a power of two). v + to must fit.
inline int64_t round_up(int64_t v, int64_t to) { return (v + to - 1) & ~(to - 1); }

}  // namespace dpi
