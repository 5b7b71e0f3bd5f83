// A large zeroed block of host memory: from the environment's hooks when there are some, else mapped, on huge
// pages where the machine allows them (a probe of 100 M keys takes twice as long on pages of 4 KB).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/environment.hpp"
#include "base/held_bytes.hpp"
#include "base/status.hpp"

namespace dpi::tiered {

class Block {
 public:
  /// kOutOfMemory with `what` and the bytes when there is no memory. bytes may be 0.
  static Result<Block> make(const MemoryHooks& hooks, uint64_t bytes, const char* what);
  Block() = default;
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Block();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  void swap(Block& other) noexcept;

  MemoryHooks hooks_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;  // rounded up to whole huge pages
  HeldCount held_;
};

}  // namespace dpi::tiered
