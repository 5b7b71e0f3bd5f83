// Rows of external tables: each table is read from the first of the stores that the options name which has it
// whole, RocksDB (on this machine) before Redis. A table that is whole has every key there is, so what it has
// not is absent and nobody else is asked.
#pragma once

#include <memory>
#include <vector>

#include "base/status.hpp"
#include "runtime/options/options.hpp"
#include "store/tiered/plugin_source.hpp"
#include "store/tiered/row_source.hpp"

namespace dpi {

/// A source of `tables`, numbered as here. kNotFound: a table is in none of the stores. A store that has a
/// table in another form, in part or damaged is an error, whatever the next one has; one that no table needs
/// is not opened.
Result<std::unique_ptr<tiered::RowSource>> open_outside_rows(std::vector<tiered::StoredTable> tables,
                                                             const ModelOptions& options);

}  // namespace dpi
