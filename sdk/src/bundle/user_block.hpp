// The user block at the start of a bundle (FORMAT.md part 1): what it says, and the check that nothing but
// raw data has changed since it was written. Runs before anything of HDF5 is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/byte_source.hpp"

namespace dpi {

struct UserBlock {
  uint32_t major = 0;
  uint32_t minor = 0;
  uint64_t bytes = 0;  // U
  uint64_t file_bytes = 0;
  uint64_t digest = 0;       // of the other bytes
  uint64_t self_digest = 0;  // XXH3 of the whole block as it stands in the file
  bool is_signed = false;
  std::vector<Extent> extents;
  std::vector<std::byte> raw;  // [0, 128 + 24 E)

  /// Bytes of [U, length) that lie in no extent: HDF5's structures and the manifest.
  uint64_t metadata_bytes() const;
};

/// Magic, version, sizes, extent order, padding. Not yet the digest.
Result<UserBlock> read_user_block(ByteSource& source);

/// Checks the Ed25519 signature under `public_key_hex`. kUnsupported when the build has no libsodium.
Status check_signature(const UserBlock& block, const std::string& public_key_hex);

}  // namespace dpi
