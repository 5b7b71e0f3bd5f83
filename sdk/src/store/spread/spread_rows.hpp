// Packed rows to places further apart, as a padded table has them. Used by resident_store.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dpi {

/// n rows of row_bytes, one behind another, to `to`, `to` + stride ... clear: the bytes between rows become
/// zeros, else they stay.
void spread_rows(std::byte* to, size_t stride, const std::byte* rows, size_t row_bytes, int64_t n,
                 bool clear);

}  // namespace dpi
