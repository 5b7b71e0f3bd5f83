// From the manifest's JSON text to checked structs (FORMAT.md parts 3 to 11; the readers are in manifest/),
// and the check that the data sets are what it says.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/manifest.hpp"

namespace dpi {

/// `minor` is the user block's: the manifest must state the same version.
Result<Manifest> read_manifest(std::string_view json, uint32_t minor);

/// Tables, parameters, vocabularies and golden rows exist with the types and shapes that the manifest states.
/// Texts begin with the data set's path.
Status check_data_sets(const Manifest& manifest, const std::vector<DataSetInfo>& data_sets);

/// Data set of `path` in a list sorted by path, or null.
const DataSetInfo* find_data_set(const std::vector<DataSetInfo>& data_sets, std::string_view path);

}  // namespace dpi
