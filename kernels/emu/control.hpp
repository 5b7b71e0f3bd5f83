// Questions and commands to the emulated device, for tests. The plugin `cuda_emu` exports these functions; a
// test finds them with dlsym. The specification of faults may also stand in DPI_EMU_FAIL when the process
// starts.
#pragma once

#include <cstdint>

extern "C" {

/// Lets calls fail: "launch:7:719" = the 7th launch from now on gives code 719; several, separated by commas;
/// "" or null = none. Kinds: alloc, pinned, copy, launch, event, stream, capture, graph, sync, map. A call
/// that fails does nothing, except that a failing `sync` waits all the same. False = not understood, nothing
/// set.
bool dpi_emu_fail(const char* spec);

/// Calls of a kind since dpi_emu_fail; -1 for an unknown kind.
int64_t dpi_emu_calls(const char* kind);

/// Bytes that are allocated on one device, and kernels that it has run; -1 for a number that no device has.
int64_t dpi_emu_device_bytes(int device);
int64_t dpi_emu_kernels(int device);

/// Each kernel and copy of the device begins up to so many microseconds late, at random by the seed.
/// Negative: none begins at all, until this is called again. 0 = as fast as the rest.
void dpi_emu_delay(int device, int64_t most_us);

struct DpiEmuLive {
  int64_t device_blocks, device_bytes, pinned_blocks, streams, events, graphs, pieces, ranges;
};
/// Everything allocated at the moment, on all devices.
void dpi_emu_live(DpiEmuLive* out);

/// A program that wants to know defines this function and exports it. It hears +1 when the emulation's own
/// code begins to run on the calling thread, and -1 when it ends: memory that this thread takes meanwhile is
/// the emulation's, not the backend's.
void dpi_emu_own(int step) __attribute__((weak, visibility("default")));
/// Likewise a function that hears of device and pinned memory that is taken (bytes) and given back (-bytes).
void dpi_emu_taken(int64_t bytes) __attribute__((weak, visibility("default")));

/// The failure that a call of this thread left behind, 0 = none; it stays there.
int dpi_emu_last_code();

/// Sets the seed, like DPI_SIMT_SEED.
void dpi_emu_seed(unsigned value);
}
