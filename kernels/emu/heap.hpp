// Inside the emulation: what is allocated, and whose it is. Used by memory.cpp (blocks) and ranges.cpp
// (pieces of address ranges). All of it is touched under Busy only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "kernels/emu/device_emu.hpp"

namespace dpi::emu {

struct Block {
  size_t bytes = 0;
  int device = 0;       // whose memory it takes
  uint32_t access = 0;  // devices whose kernels may touch it, one bit each
  bool mapped = false;  // a piece of a range
  int open = 0;         // copies at once that touch it
};
using Blocks = std::map<char*, Block>;

struct Heap {
  Blocks device, pinned;
  std::array<uint64_t, kMostDevices> used{};
  std::map<char*, size_t> ranges;  // reserved addresses
  int64_t pieces = 0;              // that were made and are not given back
  int open = 0;                    // who runs tasks
  int shown = -1;                  // the device whose memory is open to them, -1 = none
};
Heap& heap();

inline bool touches(const Block& b, int device) { return device >= 0 && (b.access >> device & 1) != 0; }

/// False: the device has not so many bytes left.
bool take_memory(int device, size_t bytes);
void give_memory(int device, size_t bytes);

}  // namespace dpi::emu
