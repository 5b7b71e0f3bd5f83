// The word by which requests join a lane's open chunk: one exchange reserves rows and a seat.
#pragma once

#include <cstdint>

namespace dpi {

/// A number of fields in 64 bits.
struct OpenWord {
  static constexpr uint32_t kNone = 63;               // no chunk is open
  static constexpr uint32_t kNumbers = 1u << 18;      // of chunks, in turn
  static constexpr uint64_t kField = (1u << 13) - 1;  // rows, shared rows, members: up to 4096

  uint32_t chunk = kNone;
  bool has_map = false;
  uint32_t members = 0, rows = 0, shared = 0;
  uint32_t number = 0;  // of the open chunk, or of the last one

  static OpenWord of(uint64_t w) {
    OpenWord o;
    o.chunk = static_cast<uint32_t>(w & 63);
    o.has_map = (w >> 6 & 1) != 0;
    o.members = static_cast<uint32_t>(w >> 7 & kField);
    o.rows = static_cast<uint32_t>(w >> 20 & kField);
    o.shared = static_cast<uint32_t>(w >> 33 & kField);
    o.number = static_cast<uint32_t>(w >> 46);
    return o;
  }
  uint64_t word() const {
    return static_cast<uint64_t>(chunk) | static_cast<uint64_t>(has_map) << 6 |
           static_cast<uint64_t>(members) << 7 | static_cast<uint64_t>(rows) << 20 |
           static_cast<uint64_t>(shared) << 33 | static_cast<uint64_t>(number) << 46;
  }
  bool open() const { return chunk != kNone; }
  uint32_t next_number() const { return (number + 1) % kNumbers; }
};

}  // namespace dpi
