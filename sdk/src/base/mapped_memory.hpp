// Pages from the kernel, which go back to it when they are freed. The C library keeps large blocks: after one
// of n bytes was freed, it takes those of up to n from its heap, where versions of a model that come and go
// leave holes (300 deltas of a model of 2.5 MB: 71 MB resident, 20 MB with pages of their own).
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace dpi {

/// Blocks from this size on are mapped. Not under AddressSanitizer, which sees only what malloc gives.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr size_t kMappedFrom = SIZE_MAX;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr size_t kMappedFrom = SIZE_MAX;
#else
inline constexpr size_t kMappedFrom = size_t{256} << 10;
#endif
#else
inline constexpr size_t kMappedFrom = size_t{256} << 10;
#endif

inline constexpr size_t kSmallPage = 4096;

/// Zeros, at a multiple of `alignment`, a power of two; null = no memory.
inline void* map_memory(size_t bytes, size_t alignment) {
  // Mapped with that much to spare, and the ends given back: mmap aligns to small pages only.
  const size_t extra = alignment > kSmallPage ? alignment : 0;
  const size_t rounded = (bytes + kSmallPage - 1) / kSmallPage * kSmallPage;
  if (rounded < bytes || rounded > SIZE_MAX - extra) return nullptr;
  void* p = mmap(nullptr, rounded + extra, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(p);
  const size_t skip = extra == 0 ? 0 : (alignment - reinterpret_cast<uintptr_t>(p) % alignment) % alignment;
  if (skip > 0) munmap(first, skip);
  if (extra > skip) munmap(first + skip + rounded, extra - skip);
  return first + skip;
}

/// bytes: as they were asked for.
inline void unmap_memory(void* p, size_t bytes) {
  munmap(p, (bytes + kSmallPage - 1) / kSmallPage * kSmallPage);
}

}  // namespace dpi
