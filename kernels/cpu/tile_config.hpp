// The configuration of AMX tile registers (Intel SDM, LDTILECFG), as the processor and its model read it.
#pragma once

#include <cstdint>

namespace dpi::kernels::cpu {

/// Zero but for the palette and the registers in use: register t has rows[t] rows, 16 at most, of
/// row_bytes[t] bytes, 64 at most.
struct alignas(64) TileConfig {
  uint8_t palette;       // 1
  uint8_t start_row;     // 0
  uint8_t reserved[14];  // 0
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64);

constexpr int kTileRegisters = 8;
constexpr int kTileRegisterRows = 16;
constexpr int kTileRowBytes = 64;

}  // namespace dpi::kernels::cpu
