// Bytes of blocks of rows, looked at and copied: in place where they are the host's, else by way of `stage`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <dpi/kernels/tensor.hpp>

#include "base/status.hpp"
#include "store/arena_map.hpp"
#include "store/resident/held_rows.hpp"

namespace dpi {

/// The first of rows [first, first + n), in a block that begins at `base`, that is not as in `rows`,
/// unpadded; -1 when there is none.
Result<int64_t> first_difference(const HeldMemory& memory, const ArenaMap::Table& at, const std::byte* base,
                                 int64_t first, int64_t n, const std::byte* rows,
                                 std::vector<std::byte>* stage);
Result<bool> same_bytes(const HeldMemory& memory, const std::byte* block, const void* bytes, size_t n,
                        std::vector<std::byte>* stage);
Status copy_block(const HeldMemory& memory, const std::byte* from, std::byte* to, uint64_t bytes,
                  std::vector<std::byte>* stage);

/// Sets the bits of those of `rows` that are not all zero; row r of them is number first + r.
void mark_nonzero(const kernels::TableView& rows, int64_t first, std::vector<uint64_t>* bits);

}  // namespace dpi
