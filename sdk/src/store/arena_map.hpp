// Where the rows of a table set lie in one fused arena: base and stride per table, 64-bit offsets. Pure
// arithmetic, shared by the resident store and by forecasts.
//
// A table that other models may read too (StoreTable::content) and is large has a block of its own, riders
// included, so that it can be held by several models; the rest is one block, which models hold together when
// all of it is equal. Large, because a block takes whole huge pages. So has one that lies in a range over
// several devices, and one with spare rows, with those behind its rows.
//
// A row of at most 32 bytes gets a stride of the next power of two, so that it never straddles a 32-byte
// sector; up to 64 bytes a stride of 64; beyond that a multiple of 32. Rows of i4, i2 and fp8 get a multiple
// of 4, and grow by what rides with them. A table that may ride (scalars of the
// same rows, derived by folds) sits in the padding behind its carrier's row when it fits there, so that one
// fetch brings both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "store/table_store.hpp"

namespace dpi {

struct ArenaMap {
  struct Table {
    int32_t block = 0;            // [blocks]
    int64_t offset = 0;           // of row 0, from the block's base
    int64_t stride = 0;           // bytes between rows
    int64_t row_bytes = 0;        // payload of a row
    int64_t scale_offset = -1;    // kI8: float per row, contiguous
    int64_t nonzero_offset = -1;  // needs_nonzero: one bit per row, in 64-bit words
    uint64_t bytes = 0;           // this table's share, padding included; 0 for a rider
    bool shares_rows = false;     // rider, or carrier of one: its rows hold bytes of another table too
  };
  struct Block {
    uint64_t bytes = 0;
    bool may_share = false;  // all of its tables say what they are made of
    bool in_range = false;   // one table over several devices (table_range.hpp)
    bool is_there = false;   // of another store (StoreTable::version)
    int64_t spare = 0;       // rows, behind those of its table; none in a range
  };
  static constexpr int64_t kOwnBlock = int64_t{32} << 20;  // the least that a block of its own is worth

  std::vector<Table> tables;
  std::vector<Block> blocks;  // [0]: of all that have none of their own
  uint64_t bytes = 0;         // of all blocks
  uint64_t there_bytes = 0;   // of those that are there
};

/// widen: a carrier's stride may grow to 64 bytes to take its riders (worth it where memory moves 64 bytes
/// anyway). range_least: bytes of rows from which a table's block is a range over several devices, whether it
/// may be shared or not; 0 = none is. Fails with kOutOfMemory when the sizes overflow.
Result<ArenaMap> make_arena_map(const std::vector<StoreTable>& tables, bool widen, uint64_t range_least = 0);

/// The table as kernels read it, in a block that begins at `base`.
kernels::TableView view_of(const StoreTable& table, const ArenaMap::Table& at, const std::byte* base);

/// Describes the content of block `block`. Equal for two table sets only if their blocks are laid out alike
/// and their tables state the same content.
std::string block_content(const ArenaMap& map, const std::vector<StoreTable>& tables, size_t block);

}  // namespace dpi
