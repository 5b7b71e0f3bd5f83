#include "store/tiered/block.hpp"

#include <sys/mman.h>

#include <cstring>
#include <string>
#include <utility>

#include "base/huge_page.hpp"
#include "base/mapped_memory.hpp"

namespace dpi::tiered {

namespace {

constexpr int32_t kTablesKind = 0;  // DPI_BLOCK_TABLES

Status no_memory(const char* what, uint64_t bytes) {
  return {Code::kOutOfMemory, "no memory for " + std::string(what) + ": " + std::to_string(bytes) + " bytes"};
}

}  // namespace

Result<Block> Block::make(const MemoryHooks& hooks, uint64_t bytes, const char* what) {
  Block b;
  if (bytes == 0) return b;
  if (bytes > UINT64_MAX - kHugePage) return no_memory(what, bytes);
  const uint64_t page = bytes < kHugePage ? kSmallPage : kHugePage;
  const uint64_t rounded = (bytes + page - 1) / page * page;
  if (hooks.alloc != nullptr) {
    void* p = hooks.alloc(hooks.user, rounded, page, kTablesKind);
    if (p == nullptr) return no_memory(what, rounded);
    b.hooks_ = hooks;
    b.data_ = static_cast<std::byte*>(p);
    b.bytes_ = rounded;
    b.held_ = HeldCount(hooks.held, rounded);
    if (reinterpret_cast<uintptr_t>(p) % page != 0)
      return invalid_argument("the environment's memory hook gave a block that is not aligned to " +
                              std::to_string(page) + " bytes");
    std::memset(p, 0, rounded);
    return b;
  }
  b.data_ = static_cast<std::byte*>(map_memory(rounded, page));
  if (b.data_ == nullptr) return no_memory(what, rounded);
  b.bytes_ = rounded;
  b.held_ = HeldCount(hooks.held, rounded);
  if (page == kHugePage) madvise(b.data_, rounded, MADV_HUGEPAGE);  // advice: may be refused
  return b;
}

Block::~Block() {
  if (data_ == nullptr) return;
  if (hooks_.alloc == nullptr)
    unmap_memory(data_, bytes_);
  else if (hooks_.free != nullptr)
    hooks_.free(hooks_.user, data_, bytes_, kTablesKind);
}

void Block::swap(Block& other) noexcept {
  std::swap(hooks_, other.hooks_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(held_, other.held_);
}

}  // namespace dpi::tiered
