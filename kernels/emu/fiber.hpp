// Inside the emulation: fibres, one per CUDA thread of a track. Used by simt_emu.cpp.
#pragma once

#include <ucontext.h>

#include "kernels/emu/simt_emu.hpp"
#include "kernels/emu/track.hpp"

namespace dpi::emu {

/// Where a stack was left.
#ifdef __x86_64__
struct Point {
  void* sp;
};
#else
using Point = ucontext_t;
#endif

enum class Wait : uint8_t { kNone, kBlock, kWarp, kDone };

/// Asynchronous copies that were started and not waited for, a ring.
struct CopyQueue {
  static constexpr unsigned kMost = 64;
  QueuedCopy copies[kMost];
  unsigned groups[kMost];  // that each belongs to
  unsigned begin = 0, end = 0;
  unsigned ended = 0;  // groups
};

struct Fiber {
  Point point;
  dim3 tid;
  int linear = 0;
  Wait wait = Wait::kDone;
  Site at{nullptr, 0};
  const void* outermost = nullptr;  // frame
  uint64_t path = 0;                // of the call of block_sync
  const char* op = nullptr;
  unsigned mask = 0;
  uint64_t brought[2] = {0, 0};  // to a warp operation, in turns: a shuffle then needs one meeting, not two
  int parity = 0;
  CopyQueue copies;
  char* stack = nullptr;
  FiberSanitizer sanitizer;
};

/// The fibre that runs, or ran last.
extern Fiber* g_fiber;
/// What every fibre runs again and again; set before a kernel.
extern const Body* g_fiber_body;
extern HostSanitizer g_host_sanitizer;

/// Host to fibre, until it calls to_host() or its body ends (Wait::kDone).
void resume(Fiber& f);
void to_host();
/// A fibre at the start of its loop. Again after a failed kernel, which leaves fibres in the middle of one.
void start_over(Fiber& f);
/// Address space; null = there is none.
char* reserve(size_t bytes);

}  // namespace dpi::emu
