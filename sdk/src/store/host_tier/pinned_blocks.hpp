// Host memory that a device's kernels read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "backend/abi/dpi_backend.h"
#include "base/environment.hpp"

namespace dpi {

/// The rows' block where kernels of a device read host memory: pinned, and aligned as the cache wants it.
class PinnedBlocks {
 public:
  PinnedBlocks(const dpi_backend_api* api, dpi_backend_device* device) : api_(api), device_(device) {}
  MemoryHooks hooks() {
    MemoryHooks h;
    h.user = this;
    h.alloc = [](void* self, size_t bytes, size_t alignment, int32_t) {
      return static_cast<PinnedBlocks*>(self)->take(bytes, alignment);
    };
    h.free = [](void* self, void* p, size_t, int32_t) { static_cast<PinnedBlocks*>(self)->give_back(p); };
    return h;
  }

 private:
  void* take(size_t bytes, size_t alignment) {
    void* p = nullptr;
    dpi_backend_error err{};
    if (api_->alloc(device_, bytes + alignment, DPI_MEMORY_STAGING, &p, &err) != 0) return nullptr;
    auto* const aligned =
        static_cast<std::byte*>(p) + (alignment - reinterpret_cast<uintptr_t>(p) % alignment);
    taken_[aligned] = p;
    return aligned;
  }
  void give_back(void* aligned) {
    api_->free(device_, taken_.at(aligned), DPI_MEMORY_STAGING);
    taken_.erase(aligned);
  }

  const dpi_backend_api* api_;
  dpi_backend_device* device_;
  std::map<void*, void*> taken_;
};

}  // namespace dpi
