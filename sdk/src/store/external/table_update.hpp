// A delta's rows into a table that lies in a store outside the process (abi/dpi_store.h) and is read while it
// changes: `dpi store update`.
//
//   for each delta of a chain, for each table that changes_table() tells of:
//     update_table({*delta, index, &patched}, *source, number, rate, progress)
//
// The table was opened by its content before the delta. What a killed run has done is found there, and gone
// on with; a table that has had the delta is left as it is.
#pragma once

#include <cstdint>
#include <memory>

#include "base/rate.hpp"
#include "bundle/bundle.hpp"
#include "bundle/delta.hpp"
#include "store/external/stored_tables.hpp"
#include "store/tiered/plugin_source.hpp"

namespace dpi {

struct TableUpdate {
  const Delta& delta;
  size_t table = 0;         // of the manifest
  Bundle* after = nullptr;  // the bundle that the delta gives: keys are read from it where all rows are set
};

struct TableUpdated {
  int64_t changes = 0;  // rows and tombstones that the delta has for the table
  int64_t already = 0;  // of them, there before; all: nothing was written
};

/// Is the table another content after the delta than in `before`? Both by FORMAT.md's hashes.
Result<bool> changes_table(const Bundle& before, const Delta& delta, size_t table);

/// Sets the rows, zeroes row numbers that are gone, takes away keys that are gone, and ends the update. The
/// default row of a keyed table is the bundle's own business: stores have none. Keys and rows are written at
/// `rate`; what the store does of itself at the end is not.
Result<TableUpdated> update_table(const TableUpdate& what, tiered::PluginSource& store, int32_t number,
                                  Rate& rate, const RowProgress& progress);

}  // namespace dpi
