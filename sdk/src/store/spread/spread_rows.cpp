#include "store/spread/spread_rows.hpp"

#include <array>
#include <cstring>

namespace dpi {
namespace {

/// In words, a mask over those behind the row: a copy whose length is known, where a call per row of 40 bytes
/// took longer than its memory. Reads kStride bytes of each row, which must be there.
template <size_t kStride>
void spread_words(std::byte* to, const std::byte* rows, size_t row_bytes, int64_t n) {
  constexpr size_t kWords = kStride / sizeof(uint64_t);
  std::array<uint64_t, kWords> keep{};
  std::memset(keep.data(), 0xFF, row_bytes);
  for (int64_t r = 0; r < n; ++r, to += kStride, rows += row_bytes) {
    std::array<uint64_t, kWords> row;
    std::memcpy(row.data(), rows, kStride);
    for (size_t i = 0; i < kWords; ++i) row[i] &= keep[i];
    std::memcpy(to, row.data(), kStride);
  }
}

}  // namespace

void spread_rows(std::byte* to, size_t stride, const std::byte* rows, size_t row_bytes, int64_t n,
                 bool clear) {
  const size_t all = static_cast<size_t>(n) * row_bytes;
  int64_t done = 0;
  if (clear && (stride == 32 || stride == 64) && row_bytes < stride && all >= stride) {
    done = static_cast<int64_t>((all - stride) / row_bytes + 1);  // rows with a whole stride of bytes behind
    stride == 32 ? spread_words<32>(to, rows, row_bytes, done) : spread_words<64>(to, rows, row_bytes, done);
  }
  for (int64_t r = done; r < n; ++r) {
    std::byte* const at = to + static_cast<size_t>(r) * stride;
    std::memcpy(at, rows + static_cast<size_t>(r) * row_bytes, row_bytes);
    if (clear) std::memset(at + row_bytes, 0, stride - row_bytes);
  }
}

}  // namespace dpi
