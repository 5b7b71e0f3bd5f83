// Where the rows of a table set lie in one fused arena: base and stride per table, 64-bit offsets. Pure
// arithmetic, shared by the resident store and by forecasts.
//
// A row of at most 32 bytes gets a stride of the next power of two, so that it never straddles a 32-byte
// sector; up to 64 bytes a stride of 64; beyond that a multiple of 32. A table that may ride (scalars of the
// same rows, derived by folds) sits in the padding behind its carrier's row when it fits there, so that one
// fetch brings both.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "store/table_store.hpp"

namespace dpi {

struct ArenaMap {
  struct Table {
    int64_t offset = 0;           // of row 0, from the arena's base
    int64_t stride = 0;           // bytes between rows
    int64_t row_bytes = 0;        // payload of a row
    int64_t scale_offset = -1;    // kI8: float per row, contiguous
    int64_t nonzero_offset = -1;  // needs_nonzero: one bit per row, in 64-bit words
    uint64_t bytes = 0;           // this table's share, padding included; 0 for a rider
    bool shares_rows = false;     // rider, or carrier of one: its rows hold bytes of another table too
  };
  std::vector<Table> tables;
  uint64_t bytes = 0;
};

/// widen: a carrier's stride may grow to 64 bytes to take its riders (worth it where memory moves 64 bytes
/// anyway). Fails with kOutOfMemory when the sizes overflow.
Result<ArenaMap> make_arena_map(const std::vector<StoreTable>& tables, bool widen);

}  // namespace dpi
