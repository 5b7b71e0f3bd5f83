// Inside the emulation: what runs one kernel. A track has one fibre per CUDA thread and, under TSan, a clock
// for each and one for itself. Used by fiber.cpp (makes them), simt_emu.cpp (runs kernels) and schedule.cpp
// (says when).
#pragma once

#include <sched.h>

#include <atomic>
#include <memory>
#include <vector>

#include "kernels/emu/device_emu.hpp"
#include "kernels/emu/sanitizers.hpp"

namespace dpi::emu {

struct Fiber;
struct FiberFree {
  void operator()(Fiber* f) const;
};

/// Work on a track runs in order. Tracks live as long as the process: TSan gives the identity of a destroyed
/// fibre to the next one, and would then miss races against the first.
struct Track {
  void* clock = nullptr;                                  // TSan fibre that stands for the track itself
  std::vector<std::unique_ptr<Fiber, FiberFree>> fibers;  // on no other track: TSan would take the locals of
                                                          // two kernels on one stack for a race
};

struct KernelRun {
  dim3 grid, block;
  const Body* body = nullptr;
  char* start = nullptr;  // every thread acquires it first
  char* end = nullptr;    // and releases this last
};

/// Makes the fibres that blocks of this shape need; false = no memory. Called when the host starts a kernel,
/// not when it runs: TSan takes all that the maker of a fibre did before as ordered before the fibre, so one
/// made later would hide races with what the host did after the start.
bool prepare_track(Track* track, dim3 block);
/// Runs all blocks; null, or the text of a fault, which holds until the next run. The caller holds Busy.
const char* run_kernel(Track* track, const KernelRun& run);
/// null, or why a launch of this shape is refused.
const char* wrong_shape(dim3 grid, dim3 block);
/// A number below n, from the emulation's seed.
size_t random_below(size_t n);
void seed_random(unsigned value);

extern std::atomic_flag g_busy;

/// One host thread at a time in the emulation. A lock of raw atomics: a mutex would order host threads under
/// TSan. What the holder allocates, frees or touches for the emulation's own needs is hidden from TSan.
struct Busy {
  Busy() {
    while (g_busy.test_and_set(std::memory_order_acquire)) sched_yield();
    hide_from_tsan();
  }
  ~Busy() {
    show_to_tsan();
    g_busy.clear(std::memory_order_release);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  const Own own_;
};

}  // namespace dpi::emu
