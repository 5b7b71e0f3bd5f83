// Features and tables of keys (FORMAT.md parts 4 and 6) find their key set, and each pad_id its row.
#pragma once

#include "base/status.hpp"
#include "bundle/manifest.hpp"

namespace dpi {

/// Sets what FeatureSpec, TableSpec and KeySetSpec say of rows. Refuses names of key sets that are not there,
/// tables that do not fit their set, and all of this in a file that says it is of format 2.0.
Status link_keys(Manifest* manifest);

}  // namespace dpi
