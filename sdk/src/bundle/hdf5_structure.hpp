// A walk over HDF5's own structures before libhdf5 sees them. Bundles use HDF5's earliest file format
// (superblock 0, symbol-table groups, version 1 object headers), which is small enough to be checked here:
// every structure lies inside the file, nothing is visited without end, no message is shared (libhdf5 1.10.8
// crashes on a shared message in a file without a message table), and no message is of a kind that a bundle
// has no use for.
#pragma once

#include "base/status.hpp"
#include "bundle/metadata_image.hpp"
#include "bundle/user_block.hpp"

namespace dpi {

/// kBadModel, with the byte of the file at which the fault stands.
Status check_hdf5_structure(const MetadataImage& image, const UserBlock& block);

}  // namespace dpi
