// The bytes of a bundle outside its extents: HDF5's own structures and the manifest. They are copied into
// memory once and their digest is checked there, so what is parsed is what was checked, whether the bundle is
// a file or memory and whatever happens to the file meanwhile. Raw data is never here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "bundle/user_block.hpp"

namespace dpi {

class Metadata {
 public:
  /// Copies and checks. kBadModel when the digest of the other bytes is wrong. Throws bad_alloc.
  static Result<Metadata> read(ByteSource& source, const UserBlock& block);
  /// The digest of the other bytes, with the user block as `block` has it now.
  Result<uint64_t> digest(const UserBlock& block) const;
  /// Is the cryptographic hash the one that the user block states?
  Status check_hash(const UserBlock& block) const;

  /// Bytes [offset, offset + n) of the file, valid while this object lives; nothing when not all of them are
  /// metadata, whatever the numbers are.
  std::optional<std::span<const std::byte>> find(uint64_t offset, uint64_t n) const;

 private:
  struct Run {
    uint64_t offset = 0;  // in the file
    uint64_t place = 0;   // in bytes_
    uint64_t length = 0;
  };
  std::unique_ptr<std::byte[]> bytes_;
  uint64_t size_ = 0;
  std::vector<Run> runs_;  // what lies between two extents, by rising offset
};

}  // namespace dpi
