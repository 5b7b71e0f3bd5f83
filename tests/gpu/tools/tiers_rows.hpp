// What the rows of gpu_tiers hold.
#pragma once

#include <bit>
#include <cstdint>

namespace dpi::gpu {

/// Element v of row r: a float of [0.5, 1).
inline float element(int64_t r, int32_t v) {
  const auto z = (static_cast<uint64_t>(r) * 64 + static_cast<uint64_t>(v) + 1) * 0x9E3779B97F4A7C15ull;
  return std::bit_cast<float>(static_cast<uint32_t>(0x3F000000u | (z >> 41)));
}

}  // namespace dpi::gpu
