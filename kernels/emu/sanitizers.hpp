// Tells the sanitizers about the emulation: which stack runs (ASan), which clock runs and what orders what
// (TSan). Without a sanitizer everything here is empty. Inside the emulation only.
#pragma once

#include <cstddef>

#if defined(DPI_EMU_ASAN) || defined(DPI_EMU_TSAN)
#define DPI_EMU_SANITIZED 1
#endif
#ifdef DPI_EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef DPI_EMU_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif

namespace dpi::emu {

struct FiberSanitizer {
  void* fake_stack = nullptr;
  void* tsan = nullptr;
};

struct HostSanitizer {
  void* fake_stack = nullptr;
  const void* stack = nullptr;
  size_t stack_bytes = 0;
  void* tsan = nullptr;
};

#ifdef DPI_EMU_ASAN
inline void leave_host(HostSanitizer& h, FiberSanitizer&, void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(&h.fake_stack, stack, bytes);
}
inline void back_on_host(HostSanitizer& h, FiberSanitizer&) {
  __sanitizer_finish_switch_fiber(h.fake_stack, nullptr, nullptr);
}
inline void leave_fiber(HostSanitizer& h, FiberSanitizer& f) {
  __sanitizer_start_switch_fiber(&f.fake_stack, h.stack, h.stack_bytes);
}
inline void back_on_fiber(HostSanitizer& h, FiberSanitizer& f) {
  __sanitizer_finish_switch_fiber(f.fake_stack, &h.stack, &h.stack_bytes);
}
inline void poison(void* p, size_t bytes) { __asan_poison_memory_region(p, bytes); }
inline void unpoison(void* p, size_t bytes) { __asan_unpoison_memory_region(p, bytes); }
#else
inline void poison(void*, size_t) {}
inline void unpoison(void*, size_t) {}
#endif

#ifdef DPI_EMU_TSAN
inline void leave_host(HostSanitizer&, FiberSanitizer& f, void*, size_t) {
  __tsan_switch_to_fiber(f.tsan, __tsan_switch_to_fiber_no_sync);
}
inline void back_on_host(HostSanitizer&, FiberSanitizer&) {}
inline void leave_fiber(HostSanitizer& h, FiberSanitizer&) {
  __tsan_switch_to_fiber(h.tsan, __tsan_switch_to_fiber_no_sync);
}
inline void back_on_fiber(HostSanitizer&, FiberSanitizer&) {}

inline void prepare_host(HostSanitizer& h) { h.tsan = __tsan_get_current_fiber(); }
/// Never destroyed: TSan reuses the identity of a destroyed fibre, and races against it vanish.
inline void* create_tsan_fiber() { return __tsan_create_fiber(0); }
inline void release(char* key) { __tsan_release(key); }
inline void acquire(char* key) { __tsan_acquire(key); }
/// Runs f on a clock of its own.
template <class F>
void run_on_clock(void* clock, F f) {
  void* host = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(clock, __tsan_switch_to_fiber_no_sync);
  f();
  __tsan_switch_to_fiber(host, __tsan_switch_to_fiber_no_sync);
}
/// The same for f that does nothing without TSan.
template <class F>
void on_clock(void* clock, F f) {
  run_on_clock(clock, f);
}
/// Hides this thread's (not its fibres') reads, writes, allocations and frees from TSan.
inline void hide_from_tsan() { AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
inline void show_to_tsan() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__); }
#else
#ifndef DPI_EMU_ASAN
inline void leave_host(HostSanitizer&, FiberSanitizer&, void*, size_t) {}
inline void back_on_host(HostSanitizer&, FiberSanitizer&) {}
inline void leave_fiber(HostSanitizer&, FiberSanitizer&) {}
inline void back_on_fiber(HostSanitizer&, FiberSanitizer&) {}
#endif
inline void prepare_host(HostSanitizer&) {}
inline void* create_tsan_fiber() { return nullptr; }
inline void release(char*) {}
inline void acquire(char*) {}
template <class F>
void run_on_clock(void*, F f) {
  f();
}
template <class F>
void on_clock(void*, F) {}
inline void hide_from_tsan() {}
inline void show_to_tsan() {}
#endif

/// Addresses for release and acquire. From the heap: TSan forgets what it knows of an address when it is
/// freed, so that its next owner starts without an order.
struct SyncKeys {
  explicit SyncKeys(size_t n) : p(new char[n]) {}
  ~SyncKeys() { delete[] p; }
  SyncKeys(const SyncKeys&) = delete;
  SyncKeys& operator=(const SyncKeys&) = delete;
  char* p;
};

}  // namespace dpi::emu
