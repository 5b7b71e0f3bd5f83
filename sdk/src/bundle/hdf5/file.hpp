// The HDF5 part of a bundle as its reader sees it (FORMAT.md part 2): metadata behind a superblock 0. HDF5's
// addresses count from the end of the user block. Every structure is asked for through claim(), which gives
// only bytes that are there, and gives each byte to one structure only: whatever the addresses say, a walk
// ends, and what it reads is at most the metadata, plus the names in the heaps.
//
//   DPI_ASSIGN_OR_RETURN(hdf5::File file, hdf5::File::open(metadata, block));
//   DPI_ASSIGN_OR_RETURN(auto links, hdf5::read_group(file, "/", file.root()));
#pragma once

#include <string>

#include "base/status.hpp"
#include "bundle/hdf5/claims.hpp"
#include "bundle/hdf5/cursor.hpp"
#include "bundle/metadata.hpp"

namespace dpi::hdf5 {

constexpr uint64_t kUndefinedAddress = UINT64_MAX;

class File {
 public:
  /// Reads the superblock. Both must outlive the File.
  static Result<File> open(const Metadata& metadata, const UserBlock& block);

  uint64_t root() const { return root_; }                  // address of the root group's object header
  uint64_t leaf_links() const { return leaf_links_; }      // places in a symbol table node
  uint64_t node_entries() const { return node_entries_; }  // places in a B-tree node
  uint64_t base() const { return block_->bytes; }

  /// The `n` bytes at `address`, from now on taken by `what` ("its object header") of the object at `path`.
  Result<Bytes> claim(const std::string& path, uint64_t address, uint64_t n, const char* what);

  /// kBadModel that names the object and the byte of the file.
  Status fault(const std::string& path, uint64_t address, const std::string& text) const;

  /// All bytes looked at: those of claim(), and those that a caller looked at again.
  uint64_t bytes_read() const { return bytes_read_; }
  void count_again(uint64_t n) { bytes_read_ += n; }

 private:
  File(const Metadata& metadata, const UserBlock& block) : metadata_(&metadata), block_(&block) {}
  Status read_superblock();

  const Metadata* metadata_;
  const UserBlock* block_;
  Claims claims_;
  uint64_t bytes_read_ = 0;
  uint64_t root_ = kUndefinedAddress;
  uint64_t leaf_links_ = 0;
  uint64_t node_entries_ = 0;
};

}  // namespace dpi::hdf5
