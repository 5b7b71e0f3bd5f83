// Where the bytes of a bundle come from: a file read with pread, or memory of the caller. Reads are exact: a
// file that became shorter since it was opened is an error, never a signal (no mapping).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.hpp"

namespace dpi {

class ByteSource {
 public:
  static Result<std::unique_ptr<ByteSource>> open_file(const std::string& path);
  /// The same of an open file, which the caller closes: not before the source is gone.
  static Result<std::unique_ptr<ByteSource>> over_file(int fd);
  static std::unique_ptr<ByteSource> over_memory(std::span<const std::byte> bytes);
  /// `length` bytes of `whole` from `offset`, which must lie inside.
  static std::unique_ptr<ByteSource> part_of(std::shared_ptr<ByteSource> whole, uint64_t offset,
                                             uint64_t length);
  virtual ~ByteSource() = default;

  uint64_t size() const { return size_; }
  /// Its bytes can be read as long as it lives, whatever others close or free.
  virtual bool stays() const { return false; }
  /// Exactly `n` bytes from `offset` into `dst`, on any number of threads at once. The range must lie inside
  /// size().
  virtual Status read(uint64_t offset, void* dst, size_t n) = 0;
  /// The same where no disk need be waited for. False: ask read(), which says what is wrong, too; `dst` may
  /// hold anything, and the disk may have been asked to bring those bytes meanwhile.
  virtual bool read_cached(uint64_t /*offset*/, void* /*dst*/, size_t /*n*/) { return false; }
  /// kIo when the file has been written to since it was opened: what was read before this is known to be what
  /// was opened. Removing and renaming it change nothing.
  virtual Status unchanged() const { return {}; }

 protected:
  uint64_t size_ = 0;
};

}  // namespace dpi
