// The only bytes that libhdf5 ever sees: an in-memory file of the bundle's length that holds the bundle's
// metadata at its own offsets and holes where raw data stands. It is filled in the same pass that checks the
// metadata's digest, so what libhdf5 parses is what was checked, whether the bundle is a file or memory and
// whatever happens to the file meanwhile.
#pragma once

#include <string>

#include "base/status.hpp"
#include "bundle/user_block.hpp"

namespace dpi {

class MetadataImage {
 public:
  /// Copies and checks. kBadModel when the digest of the other bytes is wrong.
  static Result<MetadataImage> make(ByteSource& source, const UserBlock& block);
  MetadataImage(MetadataImage&& other) noexcept;
  MetadataImage& operator=(MetadataImage&&) = delete;
  ~MetadataImage();

  /// The image as one range of size() bytes, for libhdf5's core driver; holes take no memory. Valid while
  /// this object lives.
  void* data() const { return data_; }
  size_t size() const { return size_; }
  /// Bytes of the image (zeros in holes).
  Status read(uint64_t offset, void* dst, size_t n) const;

 private:
  explicit MetadataImage(int fd) : fd_(fd) {}
  Status map(size_t size);
  Status fill(ByteSource& source, const UserBlock& block);
  Status write(uint64_t offset, const void* src, size_t n) const;

  int fd_;
  void* data_ = nullptr;  // private mapping: nothing that libhdf5 does reaches what was checked
  size_t size_ = 0;
};

}  // namespace dpi
