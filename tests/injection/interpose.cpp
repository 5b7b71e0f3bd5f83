#include "injection/interpose.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <new>

#include "kernels/emu/control.hpp"

// This file is compiled without sanitizers: its malloc is called before they are ready. DPI_OVER_ASAN: it
// stands before AddressSanitizer's.
#if defined(DPI_OVER_ASAN)
extern "C" int __sanitizer_get_ownership(const volatile void*);
extern "C" size_t __sanitizer_get_allocated_size(const volatile void*);
extern "C" int __interceptor_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
#define DPI_REAL(name) __interceptor_##name
#elif defined(DPI_OVER_TSAN)
#define DPI_NO_INTERPOSE
#endif
#ifndef DPI_REAL
#define DPI_REAL(name) __libc_##name
#endif

namespace {
thread_local int t_own = 0;
}
void dpi_emu_own(int step) { t_own += step; }  // declared by kernels/emu/control.hpp

namespace dpi::test {
namespace {

Fault g_fault;
std::atomic<bool> g_armed{false};
std::atomic<int> g_watched{0};
std::atomic<int64_t> g_calls[kSources];
std::atomic<int64_t> g_blocks{0}, g_bytes{0}, g_peak{0};

bool exempt() { return t_own != 0; }

}  // namespace

void arm(const Fault& fault) {
  g_fault = fault;
  for (auto& n : g_calls) n = 0;
  g_armed = true;
}
void disarm() { g_armed = false; }
int64_t calls_of(Source source) { return g_calls[static_cast<int>(source)]; }

bool fails(Source source) {
  if (!g_armed.load(std::memory_order_relaxed) || g_watched.load(std::memory_order_relaxed) == 0 || exempt())
    return false;
  const int64_t n = ++g_calls[static_cast<int>(source)];
  if (source != g_fault.source || g_fault.at == 0) return false;
  return n == g_fault.at || (g_fault.all_from && n > g_fault.at);
}

Watched::Watched() { ++g_watched; }
Watched::~Watched() { --g_watched; }

Alive alive() { return {g_blocks, g_bytes}; }
int64_t peak_bytes() { return std::max(g_peak.load(), g_bytes.load()); }
void restart_peak() { g_peak = g_bytes.load(); }

#ifdef DPI_NO_INTERPOSE
bool can_inject() { return false; }
#else
bool can_inject() { return true; }

namespace {

void count_always(int64_t blocks, int64_t bytes) {
  g_blocks += blocks;
  const int64_t now = g_bytes += bytes;
  for (int64_t most = g_peak; now > most && !g_peak.compare_exchange_weak(most, now);) {
  }
}

void count(int64_t blocks, int64_t bytes) {
  if (!exempt()) count_always(blocks, bytes);
}

int64_t size_of(void* p) {
#ifdef DPI_OVER_ASAN
  return __sanitizer_get_ownership(p) != 0 ? static_cast<int64_t>(__sanitizer_get_allocated_size(p)) : 0;
#else
  return static_cast<int64_t>(malloc_usable_size(p));
#endif
}

void* born(void* p) {
  if (p != nullptr) count(1, size_of(p));
  return p;
}

void gone(void* p) {
  if (p != nullptr) count(-1, -size_of(p));
}

// Memory that was mapped and counted.
struct Mapped {
  uintptr_t begin, end;
  size_t left;
};
std::mutex g_mapped_mutex;
Mapped g_mapped[4096];

void mapped(void* p, size_t n) {
  if (exempt()) return;
  const std::lock_guard<std::mutex> lock(g_mapped_mutex);
  for (Mapped& m : g_mapped) {
    if (m.left != 0) continue;
    m = {reinterpret_cast<uintptr_t>(p), reinterpret_cast<uintptr_t>(p) + n, n};
    ++g_blocks;
    g_bytes += static_cast<int64_t>(n);  // for the peak when its ends have been given back
    return;
  }
}

void unmapped(void* p, size_t n) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  const std::lock_guard<std::mutex> lock(g_mapped_mutex);
  for (Mapped& m : g_mapped) {
    if (m.left == 0 || at < m.begin || at >= m.end) continue;
    const size_t gone = std::min(n, m.left);
    m.left -= gone;
    g_blocks -= m.left == 0 ? 1 : 0;
    g_bytes -= static_cast<int64_t>(gone);
    return;
  }
}

void* refused() {
  errno = ENOMEM;
  return nullptr;
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

/// A read that is told to fail: true with its result in *got, or false with the bytes to read in *n.
bool read_fails(size_t* n, ssize_t* got) {
  if (!fails(Source::kRead)) return false;
  *got = g_fault.how == How::kEnd ? 0 : -1;
  if (g_fault.how == How::kFail) errno = EIO;
  if (g_fault.how == How::kInterrupted) errno = EINTR;
  if (g_fault.how == How::kShort) *n = *n > 1 ? *n / 2 : *n;
  return g_fault.how != How::kShort;
}

bool open_fails() {
  if (!fails(Source::kOpen)) return false;
  errno = EMFILE;
  return true;
}

}  // namespace
#endif

}  // namespace dpi::test

#ifndef DPI_NO_INTERPOSE
using dpi::test::born;
using dpi::test::fails;
using dpi::test::gone;
using dpi::test::refused;
using dpi::test::Source;

#pragma GCC visibility push(default)
void dpi_emu_taken(int64_t bytes) { dpi::test::count_always(0, bytes); }

extern "C" {
void* DPI_REAL(malloc)(size_t);
void* DPI_REAL(calloc)(size_t, size_t);
void* DPI_REAL(realloc)(void*, size_t);
void* DPI_REAL(memalign)(size_t, size_t);
void DPI_REAL(free)(void*);

void* malloc(size_t n) { return fails(Source::kAlloc) ? refused() : born(DPI_REAL(malloc)(n)); }
void* calloc(size_t n, size_t m) { return fails(Source::kAlloc) ? refused() : born(DPI_REAL(calloc)(n, m)); }
void* realloc(void* p, size_t n) {
  if (fails(Source::kAlloc)) return refused();
  const int64_t before = p != nullptr ? dpi::test::size_of(p) : 0;
  void* const now = DPI_REAL(realloc)(p, n);
  if (now != nullptr) {
    dpi::test::count(p == nullptr ? 1 : 0, dpi::test::size_of(now) - before);
  } else if (n == 0 && p != nullptr) {
    dpi::test::count(-1, -before);
  }
  return now;
}
void* aligned_alloc(size_t a, size_t n) {
  return fails(Source::kAlloc) ? refused() : born(DPI_REAL(memalign)(a, n));
}
void* memalign(size_t a, size_t n) { return aligned_alloc(a, n); }
int posix_memalign(void** out, size_t a, size_t n) {
  void* const p = aligned_alloc(a, n);
  if (p == nullptr) return ENOMEM;
  *out = p;
  return 0;
}
void free(void* p) {
  gone(p);
  DPI_REAL(free)(p);
}

// Memory without a file counts as a block, whose ends may be given back before it.
void* mmap(void* at, size_t n, int access, int flags, int fd, off_t from) noexcept {
  static const auto real = dpi::test::next<void* (*)(void*, size_t, int, int, int, off_t)>("mmap");
  const bool memory = flags == (MAP_PRIVATE | MAP_ANONYMOUS);  // the emulation has other flags
  if (memory && fails(Source::kAlloc)) {
    refused();
    return MAP_FAILED;
  }
  void* const p = real(at, n, access, flags, fd, from);
  if (memory && p != MAP_FAILED) dpi::test::mapped(p, n);
  return p;
}
int munmap(void* p, size_t n) noexcept {
  static const auto real = dpi::test::next<int (*)(void*, size_t)>("munmap");
  dpi::test::unmapped(p, n);
  return real(p, n);
}

ssize_t pread(int fd, void* to, size_t n, off_t at) {
  static const auto real = dpi::test::next<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  ssize_t got = 0;
  return dpi::test::read_fails(&n, &got) ? got : real(fd, to, n, at);
}
ssize_t pread64(int fd, void* to, size_t n, off_t at) { return pread(fd, to, n, at); }
ssize_t read(int fd, void* to, size_t n) {
  static const auto real = dpi::test::next<ssize_t (*)(int, void*, size_t)>("read");
  ssize_t got = 0;
  return dpi::test::read_fails(&n, &got) ? got : real(fd, to, n);
}
int open(const char* path, int flags, ...) {
  static const auto real = dpi::test::next<int (*)(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const int mode = va_arg(rest, int);
  va_end(rest);
  return dpi::test::open_fails() ? -1 : real(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int mode = va_arg(rest, int);
  va_end(rest);
  return open(path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  static const auto real = dpi::test::next<FILE* (*)(const char*, const char*)>("fopen");
  return dpi::test::open_fails() ? nullptr : real(path, mode);
}
FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }
int fstat(int fd, struct stat* to) noexcept {
  static const auto real = dpi::test::next<int (*)(int, struct stat*)>("fstat");
  return dpi::test::open_fails() ? -1 : real(fd, to);
}
int pthread_create(pthread_t* t, const pthread_attr_t* a, void* (*run)(void*), void* arg) {
#ifdef DPI_OVER_ASAN
  const auto real = &__interceptor_pthread_create;  // the next one is libc's: its threads ASan would not know
#else
  static const auto real =
      dpi::test::next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
#endif
  return fails(Source::kThread) ? EAGAIN : real(t, a, run, arg);
}
}

// Those of a sanitizer, which would not call malloc; the library's own are inside it and do.
namespace {
void* made(size_t n, size_t alignment) {
  void* const p = alignment == 0 ? malloc(n > 0 ? n : 1) : aligned_alloc(alignment, n > 0 ? n : 1);
  return p;
}
void* made_or_throw(size_t n, size_t alignment) {
  void* const p = made(n, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace

void* operator new(size_t n) { return made_or_throw(n, 0); }
void* operator new[](size_t n) { return made_or_throw(n, 0); }
void* operator new(size_t n, std::align_val_t a) { return made_or_throw(n, static_cast<size_t>(a)); }
void* operator new[](size_t n, std::align_val_t a) { return made_or_throw(n, static_cast<size_t>(a)); }
void* operator new(size_t n, const std::nothrow_t&) noexcept { return made(n, 0); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return made(n, 0); }
void operator delete(void* p) noexcept { free(p); }
void operator delete[](void* p) noexcept { free(p); }
void operator delete(void* p, size_t) noexcept { free(p); }
void operator delete[](void* p, size_t) noexcept { free(p); }
void operator delete(void* p, std::align_val_t) noexcept { free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { free(p); }
#pragma GCC visibility pop
#endif
