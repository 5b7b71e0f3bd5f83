// Blocks of host memory: large ones are pages of their own, which the process has no more once they are
// freed. What is held is told as it is taken and given back.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "backend/host_device.hpp"
#include "base/huge_page.hpp"
#include "base/mapped_memory.hpp"

namespace dpi::test::host_memory_test {
namespace {

/// The process has the page at `p`.
bool is_mapped(void* p) {
  unsigned char resident = 0;
  void* const page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) / kSmallPage * kSmallPage);
  return ::mincore(page, kSmallPage, &resident) == 0 || errno != ENOMEM;
}

}  // namespace

TEST_CASE("blocks of any size: aligned, writable to the last byte, and large ones go back to the kernel") {
  int64_t held = 0;
  dpi_backend_options options{};
  options.held_self = &held;
  options.held = [](void* self, int64_t n, int32_t on_device) {
    CHECK(on_device == 0);
    *static_cast<int64_t*>(self) += n;
  };
  backend::HostMemory memory(options);
  for (const size_t bytes : {size_t{1}, size_t{4096}, kMappedFrom - 64, size_t{256} << 10, size_t{300'001},
                             kHugePage, kHugePage + 1, 3 * kHugePage + 4097}) {
    if (bytes > (size_t{1} << 30)) continue;  // under AddressSanitizer nothing is mapped
    for (const size_t alignment : {size_t{64}, kSmallPage, kHugePage}) {
      CAPTURE(bytes);
      CAPTURE(alignment);
      void* p = nullptr;
      REQUIRE(memory.allocate(bytes, alignment, 0, &p).ok());
      CHECK(reinterpret_cast<uintptr_t>(p) % alignment == 0);
      CHECK(held >= static_cast<int64_t>(bytes));
      // malloc gives alignment away, and whole pages where it takes a block from the kernel itself.
      CHECK(held <= static_cast<int64_t>(bytes + alignment + kSmallPage) + 128);
      std::memset(p, 0x5a, bytes);
      auto* const last = static_cast<unsigned char*>(p) + bytes - 1;
      CHECK(*last == 0x5a);
      memory.release(p, 0);
      CHECK(held == 0);
      if (bytes < kMappedFrom) continue;
      CHECK(!is_mapped(p));
      CHECK(!is_mapped(last));
    }
  }
  void* p = nullptr;
  if (kMappedFrom != SIZE_MAX) {  // AddressSanitizer ends a process that asks for so much
    CHECK(!memory.allocate(SIZE_MAX - 100, 64, 0, &p).ok());
    CHECK(!memory.allocate(SIZE_MAX / 2, kHugePage, 0, &p).ok());
  }
  CHECK(p == nullptr);
  memory.release(nullptr, 0);
  CHECK(held == 0);
}

}  // namespace dpi::test::host_memory_test
