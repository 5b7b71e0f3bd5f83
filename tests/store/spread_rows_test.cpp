// Packed rows spread over a padded table: every width and stride, nothing but the rows' places written.
#include "store/spread/spread_rows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace dpi::test::spread_rows_test {
namespace {

/// The definition.
std::vector<std::byte> spread(const std::vector<std::byte>& rows, size_t row, size_t stride, size_t n,
                              bool clear) {
  std::vector<std::byte> out(n * stride, std::byte{0xEE});
  for (size_t r = 0; r < n; ++r) {
    for (size_t i = 0; i < (clear ? stride : row); ++i)
      out[r * stride + i] = i < row ? rows[r * row + i] : std::byte{0};
  }
  return out;
}

TEST_CASE("rows of every width") {
  for (const size_t stride : {4u, 8u, 16u, 32u, 64u, 96u, 160u}) {
    for (size_t row = 1; row <= stride; ++row) {
      for (const size_t n : {0u, 1u, 2u, 3u, 17u, 100u}) {
        std::vector<std::byte> rows(n * row);  // no more: what reads beyond the last row shows under ASan
        for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>(i * 131 + 7);
        for (const bool clear : {true, false}) {
          CAPTURE(stride);
          CAPTURE(row);
          CAPTURE(n);
          std::vector<std::byte> out(n * stride, std::byte{0xEE});
          spread_rows(out.data(), stride, rows.data(), row, static_cast<int64_t>(n), clear);
          CHECK(out == spread(rows, row, stride, n, clear));
        }
      }
    }
  }
}

}  // namespace
}  // namespace dpi::test::spread_rows_test
