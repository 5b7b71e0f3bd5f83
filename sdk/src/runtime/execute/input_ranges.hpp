// The ranges of a packed input block that travel to a device, and the padding that fills it up to a batch
// bucket. Used by runtime/execute/flight.cpp.
#pragma once

#include <cstddef>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "runtime/request/resolve.hpp"

namespace dpi {

/// The ranges of a block that `rows` rows use, in ascending order: item part, shared part, then offsets, ids
/// and weights of each sequence feature, whose lengths are known per call only (count_at). Replaces *ranges.
void list_input_ranges(const ResolveSchema& schema, const InputMap& map, const ResolvedRows& rows,
                       std::vector<dpi_fetch_range>* ranges);

/// Bytes of a range for the block at hand.
int64_t range_bytes(const dpi_fetch_range& range, const std::byte* block);

/// Fills the block from `rows` up to `padded` rows with rows that every op can take: id 0, 0.0, empty bags,
/// shared row 0. Their scores mean nothing.
void pad_rows(const ResolveSchema& schema, const InputMap& map, const ResolvedRows& rows,
              const ResolvedRows& padded, std::byte* block);

}  // namespace dpi
