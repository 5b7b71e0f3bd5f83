// Counts what `operator new` hands out on this thread, and lets one of them fail. A test program that uses it
// adds support/count_allocations.cpp to its sources (in a file of its own: g++ misreads replaced operators
// that it can inline).
#pragma once

#include <cstdint>

namespace dpi::test {

/// Allocations of the calling thread since it began.
int64_t allocations_so_far();

/// The allocation after `n` further ones of this thread throws std::bad_alloc, once; negative = none does.
void fail_allocation(int64_t n);

template <class F>
int64_t allocations_during(F&& f) {
  const int64_t before = allocations_so_far();
  f();
  return allocations_so_far() - before;
}

}  // namespace dpi::test
