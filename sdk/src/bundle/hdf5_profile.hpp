// The HDF5 part of a bundle: walks its groups (hdf5/), refuses everything outside the profile (FORMAT.md part
// 2) and lists the data sets with their places, paired with the extents of the user block.
#pragma once

#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/hdf5/file.hpp"
#include "bundle/user_block.hpp"

namespace dpi {

struct Hdf5Contents {
  std::vector<DataSetInfo> data_sets;  // without /manifest, sorted by path
  hdf5::Bytes manifest;                // in the metadata
};

Result<Hdf5Contents> read_hdf5_profile(hdf5::File& file, const UserBlock& block);

/// "f32" ... as error texts and `dpi inspect` name element types.
const char* type_name(DataSetInfo::Type type);
int64_t type_bytes(DataSetInfo::Type type);
/// The element type that rows of this dtype are stored as.
DataSetInfo::Type storage_type(kernels::DType dtype);
/// Columns of such a data set for rows of `dim` elements.
int64_t storage_columns(kernels::DType dtype, int64_t dim);
/// The type of a data set of scales or offsets of so many bytes each (RowForm): f32, or the bits of f16.
DataSetInfo::Type scalar_type(int32_t bytes);

}  // namespace dpi
