// The HDF5 side of a bundle: walks the file through the HDF5 API, refuses everything outside the profile
// (FORMAT.md part 2) and lists the data sets with their places. Raw data is never read through HDF5, and
// nothing of HDF5 is open afterwards.
#pragma once

#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/metadata_image.hpp"
#include "bundle/user_block.hpp"

namespace dpi {

struct Hdf5Contents {
  std::vector<DataSetInfo> data_sets;  // without /manifest, sorted by path
  Extent manifest;                     // place of the manifest's bytes (digest unused)
};

Result<Hdf5Contents> read_hdf5_profile(const MetadataImage& image, const UserBlock& block);

/// "f32" ... as error texts and `dpi inspect` name element types.
const char* type_name(DataSetInfo::Type type);
int64_t type_bytes(DataSetInfo::Type type);

}  // namespace dpi
