// Copies of some rows of a table in memory that its reader reaches faster than the table: a set-associative
// cache without owner. Lookups ask it before they read a row; who fills it is sdk/src/store/device_cache.
//
// A set is 16 lines and their 16 tags, 64 bytes. A tag is the number of the row that its line holds, plus
// one; 0 = none. The whole number is kept, so a tag is exact whatever the number of sets is, and says by
// itself which row a line has.
#pragma once

#include <cstdint>

namespace dpi::kernels {

inline constexpr uint32_t kCacheWays = 16;

/// The cache of all tables of one stride, which number their rows together. Kernels read it in place, and it
/// changes meanwhile: tags and delta while `sets` is 0 and no kernel runs that has seen another number there.
struct RowCache {
  const uint32_t* tags = nullptr;  // [sets][kCacheWays], aligned to 64 bytes
  uint64_t delta = 0;              // bytes from row 0 of the table to line 0, modulo 2^64
  uint32_t sets = 0;               // at most 2^27 - 1; 0 = no row has a copy
};

/// The set of a row. An odd factor maps the 32-bit numbers one to one, and a set takes an equal range of what
/// comes out: no stride of rows meets few sets, and the number of sets need not be a power of two.
constexpr uint32_t cache_set(uint32_t row, uint32_t sets) {
  return static_cast<uint32_t>(static_cast<uint64_t>(row * 0x9E3779B1u) * sets >> 32);
}

/// A line's new content: the row with number tag - 1, or nothing.
struct CacheChange {
  uint32_t line = 0;
  uint32_t tag = 0;
};

}  // namespace dpi::kernels
