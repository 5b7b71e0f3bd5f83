// Inside the emulation: fibres, one per CUDA thread of a track. Used by simt_emu.cpp.
#pragma once

#include <ucontext.h>

#include <memory>

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
struct QueuedCopies {
  static constexpr unsigned kMost = 64;
  QueuedCopy copies[kMost];
  unsigned groups[kMost];  // that each belongs to
};

/// The members that every switch touches come first, in one cache line; large blocks have a thousand fibres.
struct alignas(64) Fiber {
  Point point;
  char* stack = nullptr;
  const char* op = nullptr;
  dim3 tid;
  int linear = 0;
  unsigned mask = 0;
  int parity = 0;
  Wait wait = Wait::kDone;
  uint64_t brought[2] = {0, 0};  // to a warp operation, in turns: a shuffle then needs one meeting, not two
  Site at{nullptr, 0};
  const void* outermost = nullptr;                         // frame
  uint64_t path = 0;                                       // of the call of block_sync
  unsigned copy_begin = 0, copy_end = 0, copy_groups = 0;  // of the queue; groups that ended
  std::unique_ptr<QueuedCopies> queue = std::make_unique<QueuedCopies>();
  FiberSanitizer sanitizer;
};

/// The fibre that runs, or ran last.
extern Fiber* g_fiber;
/// The body that every fibre runs again and again; set before a kernel.
extern const Body* g_fiber_body;
extern HostSanitizer g_host_sanitizer;

/// Host to fibre, until it calls to_host() or its body ends (Wait::kDone).
void resume(Fiber& f);
void to_host();
/// Swaps the stacks of two fibres that are at the start of their loops. Sanitizers know a fibre by its stack:
/// not with them.
void swap_stacks(Fiber& a, Fiber& b);
/// A fibre at the start of its loop. Again after a failed kernel, which leaves fibres in the middle of one.
void start_over(Fiber& f);
/// Address space; null = there is none.
char* reserve(size_t bytes);

}  // namespace dpi::emu
