// Where packed weights begin, and how much they take: huge pages where they fill them.
#include "backend/cpu/weight_block.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

#include "base/huge_page.hpp"

namespace dpi::test::weight_block_test {
namespace {

using backend::take_weight_block;
using backend::weight_block_bytes;

TEST_CASE("whole huge pages where three quarters of the last are used") {
  static_assert(weight_block_bytes(0) == 64);
  static_assert(weight_block_bytes(1) == 64);
  static_assert(weight_block_bytes(65) == 128);
  static_assert(weight_block_bytes(kHugePage / 4 * 3 - 1) == kHugePage / 4 * 3);
  static_assert(weight_block_bytes(kHugePage / 4 * 3) == kHugePage);
  static_assert(weight_block_bytes(kHugePage) == kHugePage);
  static_assert(weight_block_bytes(kHugePage + 1) == kHugePage + 64);
  static_assert(weight_block_bytes(kHugePage / 4 * 7) == 2 * kHugePage);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{100'000}, kHugePage / 4 * 3 - 1, kHugePage / 4 * 3,
                             kHugePage + 1, 3 * kHugePage}) {
    CAPTURE(bytes);
    const backend::WeightBlock block = take_weight_block(bytes);
    REQUIRE(block != nullptr);
    const auto at = reinterpret_cast<uintptr_t>(block.get());
    CHECK(at % (bytes < kHugePage / 4 * 3 ? 64 : kHugePage) == 0);
    std::memset(block.get(), 1, weight_block_bytes(bytes));  // all of it is there: ASan looks
  }
}

}  // namespace
}  // namespace dpi::test::weight_block_test
