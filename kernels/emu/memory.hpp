// Inside the emulation: who may touch device memory when, what is alive, which calls are set to fail. Used
// by schedule.cpp and capture.cpp.
#pragma once

#include <cstdint>

namespace dpi::emu {

/// Device memory is poisoned (ASan) but while tasks run: between open and close, which nest, and of the
/// device that show named last. Under Busy.
void open_memory();
void show_memory(int device);
void close_memory();

enum class Kind : uint8_t {
  kAlloc,
  kPinned,
  kCopy,
  kLaunch,
  kEvent,
  kStream,
  kCapture,
  kGraph,
  kSync,
  kMap,
  kCount
};

/// Counts the call; its code if it is set to fail, else 0. Under Busy.
int injected(Kind kind);

/// Handles that exist.
struct Handles {
  int64_t streams = 0, events = 0, graphs = 0;
};
Handles& live_handles();

/// Runs all that was started on any stream. schedule.cpp
void run_all();

}  // namespace dpi::emu
