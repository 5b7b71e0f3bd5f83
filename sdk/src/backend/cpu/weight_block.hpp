// Memory of packed weights. Small pages lie anywhere in the machine's memory, so each process has its own
// luck with the caches: [1024] x 3 at one row, medians of six processes in turn, 87.6 to 95.8 us in small
// pages, in huge ones 85.2 to 86.9 and one disturbed.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>

#include "base/huge_page.hpp"
#include "base/mapped_memory.hpp"

namespace dpi::backend {

constexpr size_t kWeightAlignment = 64;

struct FreeWeights {
  size_t mapped = 0;  // bytes from the kernel, 0 = from malloc
  void operator()(void* p) const { mapped != 0 ? unmap_memory(p, mapped) : std::free(p); }
};
using WeightBlock = std::unique_ptr<void, FreeWeights>;

/// Bytes that a block of `bytes` takes: whole huge pages where at least three quarters of the last would be
/// used, else whole cache lines behind them.
constexpr size_t weight_block_bytes(size_t bytes) {
  const size_t lines =
      (std::max<size_t>(bytes, 1) + kWeightAlignment - 1) / kWeightAlignment * kWeightAlignment;
  return std::max(lines, (bytes + kHugePage / 4) / kHugePage * kHugePage);
}

/// At a huge page's begin, with the kernel asked for huge pages, where the block has a whole one; else at a
/// cache line's. Null: there is no memory.
inline WeightBlock take_weight_block(size_t bytes) {
  const size_t size = weight_block_bytes(bytes);
  const bool huge = size >= kHugePage;
  const size_t alignment = huge ? kHugePage : kWeightAlignment;
  const bool mapped = size >= kMappedFrom;
  void* p = nullptr;
  if (mapped)
    p = map_memory(size, alignment);
  else if (posix_memalign(&p, alignment, size) != 0)
    return nullptr;
  if (huge && p != nullptr) madvise(p, size / kHugePage * kHugePage, MADV_HUGEPAGE);  // may be refused
  return WeightBlock(p, FreeWeights{mapped ? size : 0});
}

}  // namespace dpi::backend
