// The HDF5 part of a bundle, read step by step: what bundle.cpp does, for tests that want to see the parts.
#pragma once

#include <filesystem>

#include "bundle/bundle_bytes.hpp"
#include "bundle/byte_source.hpp"
#include "bundle/hdf5_profile.hpp"
#include "bundle/metadata.hpp"

namespace dpi::test {

struct Hdf5Part {
  UserBlock block;
  Metadata metadata;  // what `manifest` points into
  Bytes manifest;
  std::vector<DataSetInfo> sets;
  uint64_t bytes_read = 0;  // of structures, /manifest and names; set also when reading failed
};

/// Reads it. On failure block and bytes_read say how far it came.
inline Status read_hdf5_part(ByteSource& source, Hdf5Part* out) {
  DPI_ASSIGN_OR_RETURN(out->block, read_user_block(source));
  DPI_ASSIGN_OR_RETURN(out->metadata, Metadata::read(source, out->block));
  DPI_ASSIGN_OR_RETURN(hdf5::File file, hdf5::File::open(out->metadata, out->block));
  auto contents = read_hdf5_profile(file, out->block);
  out->bytes_read = file.bytes_read();
  if (!contents.ok()) return std::move(contents).status();
  const auto* p = reinterpret_cast<const unsigned char*>(contents->manifest.data());
  out->manifest.assign(p, p + contents->manifest.size());
  out->sets = std::move(contents->data_sets);
  return {};
}

inline Status read_hdf5_part(const Bytes& bytes, Hdf5Part* out) {
  return read_hdf5_part(*ByteSource::over_memory(std::as_bytes(std::span(bytes.data(), bytes.size()))), out);
}

/// Every bundle in the source tree: demo models, golden models, models of one op, encoders, small.h5.
inline std::vector<std::string> committed_bundles() {
  std::vector<std::string> out;
  for (const char* folder : {"weights/demo", "tests/e2e/golden", "tests/e2e/op_bundles", "tests/encode/data",
                             "tests/bundle/data"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(source_dir()) / folder)) {
      if (entry.path().extension() == ".h5") out.push_back(entry.path().string());
    }
  }
  CHECK(out.size() >= 41);
  return out;
}

}  // namespace dpi::test
