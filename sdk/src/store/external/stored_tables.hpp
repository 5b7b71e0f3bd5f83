// A bundle's tables in a store outside the process (abi/dpi_store.h): how they are called there, how they get
// there, and whether what lies there is what the bundle has.
#pragma once

#include <cstdint>
#include <functional>

#include "bundle/bundle.hpp"
#include "store/tiered/plugin_source.hpp"

namespace dpi {

/// Table `index` as a store knows it. Its content is the hash of its rows as FORMAT.md defines it; of a keyed
/// table or one with scales the hash of that hash, its scales', its offsets' and its keys'. The default row
/// of a keyed table is not stored; a row of i8 has its scale behind (tiered::scale_at), one of i4, i2 or fp8
/// as kernels read it. kUnsupported for an external table, and in a build without libsodium for a keyed one
/// or one with scales.
Result<tiered::StoredTable> stored_table(const Bundle& bundle, size_t index);

/// done: rows so far. An error ends the work.
using RowProgress = std::function<Status(int64_t done)>;

/// Writes what is not there yet, block by block as the bundle has them, and completes the table. One that was
/// interrupted goes on where it was when what is there began as this table does, else kBadModel says to drop
/// it. Of a complete one, rows that the store has lost are written again while others read it, once the
/// bundle has been read whole. One that updates have made another content is repaired by the bundle of that
/// content only, else kBadModel names it. Gives how many rows were written.
Result<int64_t> write_table(Bundle& bundle, size_t index, tiered::PluginSource& store, int32_t table,
                            const RowProgress& progress);

/// Reads every row from the store and compares it with the bundle's; kBadModel names the first key that
/// differs.
Status compare_table(Bundle& bundle, size_t index, tiered::PluginSource& store, int32_t table,
                     const RowProgress& progress);

}  // namespace dpi
