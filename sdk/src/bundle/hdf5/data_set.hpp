// Data sets of the profile: one of six element types, a fixed shape of 1 to 8 dims, contiguous storage inside
// the file, no fill value.
#pragma once

#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/hdf5/file.hpp"

namespace dpi::hdf5 {

/// The data set whose object header is at `address`. Its extent is what HDF5 says, with no digest; nobody has
/// yet asked whether it lies inside the file.
Result<DataSetInfo> read_data_set(File& file, const std::string& path, uint64_t address);

}  // namespace dpi::hdf5
