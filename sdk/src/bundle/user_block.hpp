// The user block at the start of a bundle (FORMAT.md part 1): what it says, and the check that nothing but
// raw data has changed since it was written. Runs before anything of HDF5 is read.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/byte_source.hpp"

namespace dpi {

/// The kind of a file with a user block, told by its magic. Deltas: weights/DELTA.md.
enum class FileKind { kBundle, kDelta };

/// Where the parts of the block stand.
struct UserBlockForm {
  static constexpr uint64_t kDigest = 40, kSignatureCount = 56, kMetadataHash = 64;
  static constexpr uint64_t kSignatures = 128, kSignatureBytes = 80, kMaxSignatures = 8;
  static constexpr uint64_t kExtents = 768, kExtentBytes = 56;
};

struct UserBlock {
  FileKind kind = FileKind::kBundle;
  uint32_t major = 0;
  uint32_t minor = 0;
  uint64_t bytes = 0;  // U
  uint64_t file_bytes = 0;
  uint64_t digest = 0;       // of the other bytes
  uint64_t self_digest = 0;  // XXH3 of the whole block as it stands in the file
  ContentHash metadata_hash{};
  std::vector<Signature> signatures;
  std::vector<Extent> extents;
  std::vector<std::byte> raw;  // [0, 768 + 56 E)

  /// Bytes of [U, length) that lie in no extent: HDF5's structures and the manifest.
  uint64_t metadata_bytes() const;
  /// Bytes [0, 128) as they are signed: the digest and the number of signatures read as zeros.
  std::array<std::byte, 128> signed_head() const;
  /// The extents as they stand in the file.
  std::span<const std::byte> extent_list() const { return std::span(raw).subspan(UserBlockForm::kExtents); }
};

/// Magic, version, sizes, extent order, padding. Not yet the digest.
Result<UserBlock> read_user_block(ByteSource& source, FileKind kind = FileKind::kBundle);

/// The kind that the first bytes state; a bundle where they state neither.
Result<FileKind> kind_of(ByteSource& source);

/// The version of the bundle that the block belongs to (FORMAT.md part 1): a hash of everything in the file
/// but the digest and the signatures. kUnsupported in a build without libsodium.
Result<ContentHash> version_of(const UserBlock& block);

}  // namespace dpi
