// Reads the manifest of a delta (weights/DELTA.md part 2).
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "bundle/content_hash.hpp"

namespace dpi {

struct DeltaManifest {
  std::string name;  // of the model
  ContentHash base{}, version{};
};

/// `minor` is the user block's: the manifest must state the same.
Result<DeltaManifest> read_delta_manifest(std::string_view json, uint32_t minor);

}  // namespace dpi
