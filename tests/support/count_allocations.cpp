#include "support/count_allocations.hpp"

#include <cstdlib>
#include <new>

namespace dpi::test {
namespace {

thread_local int64_t t_allocations = 0;
thread_local int64_t t_until_failure = -1;

void* counted(size_t n, size_t alignment) {
  ++t_allocations;
  if (t_until_failure >= 0 && t_until_failure-- == 0) throw std::bad_alloc();
  const size_t size = n == 0 ? 1 : n;
  void* p = alignment == 0 ? std::malloc(size)
                           : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace

int64_t allocations_so_far() { return t_allocations; }
void fail_allocation(int64_t n) { t_until_failure = n; }

}  // namespace dpi::test

void* operator new(size_t n) { return dpi::test::counted(n, 0); }
void* operator new[](size_t n) { return dpi::test::counted(n, 0); }
void* operator new(size_t n, std::align_val_t a) { return dpi::test::counted(n, static_cast<size_t>(a)); }
void* operator new[](size_t n, std::align_val_t a) { return dpi::test::counted(n, static_cast<size_t>(a)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept { std::free(p); }
