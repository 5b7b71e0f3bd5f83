/// A copy of some bytes that ends where a page without access begins: whoever reads past them dies.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

namespace dpi::test {

class EdgeBlock {
 public:
  EdgeBlock(const void* from, size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    open_ = (bytes + page - 1) / page * page;
    mapped_ = open_ + page;
    void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("no memory for a test's block");
    base_ = static_cast<char*>(p);
    if (mprotect(base_ + open_, page, PROT_NONE) != 0) throw std::runtime_error("no page without access");
    if (bytes > 0) std::memcpy(data(), from, bytes);
  }
  ~EdgeBlock() { munmap(base_, mapped_); }
  EdgeBlock(const EdgeBlock&) = delete;
  EdgeBlock& operator=(const EdgeBlock&) = delete;

  void* data() const { return base_ + (open_ - bytes_); }

 private:
  size_t bytes_, open_ = 0, mapped_ = 0;
  char* base_ = nullptr;
};

}  // namespace dpi::test
