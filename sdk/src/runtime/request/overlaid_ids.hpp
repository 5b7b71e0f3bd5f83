// Ids of rows that lie elsewhere, asked for where they are: the last that is done to a packed block.
#pragma once

#include <cstddef>

#include "runtime/request/resolve.hpp"
#include "store/resident/row_overlay.hpp"

namespace dpi {

/// Replaces the row numbers of one feature, already resolved, by their places in the overlay.
void overlay_ids(const ResolveSchema& schema, const InputMap& map, int32_t feature, const ResolvedRows& rows,
                 const RowOverlay& overlay, std::byte* block);

}  // namespace dpi
