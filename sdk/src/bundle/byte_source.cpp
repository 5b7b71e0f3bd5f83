#include "bundle/byte_source.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <utility>

#include "base/file_handle.hpp"
#include "base/text.hpp"

namespace dpi {
namespace {

class FileSource final : public ByteSource {
 public:
  /// Reads `fd`, which `owned` (none where it is another's) closes.
  FileSource(int fd, const struct stat& opened, FileHandle owned)
      : fd_(fd), written_(opened.st_mtim), owned_(std::move(owned)) {
    size_ = static_cast<uint64_t>(opened.st_size);
  }
  bool stays() const override { return owned_.get() >= 0; }

  Status read(uint64_t offset, void* dst, size_t n) override {
    auto* to = static_cast<char*>(dst);
    while (n > 0) {
      const ssize_t got = ::pread(fd_, to, n, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        const int error = errno;
        return Status(Code::kIo, "read at byte " + std::to_string(offset) + ": " + errno_text(error))
            .native(error);
      }
      if (got == 0) return shorter();
      to += got;
      offset += static_cast<uint64_t>(got);
      n -= static_cast<size_t>(got);
    }
    return {};
  }

  /// Linux does not wait for the page, but begins to read it.
  bool read_cached(uint64_t offset, void* dst, size_t n) override {
    if (!tells_cached_.load(std::memory_order_relaxed)) return false;
    const iovec to = {dst, n};
    const ssize_t got = ::preadv2(fd_, &to, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    if (got < 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
      tells_cached_.store(false, std::memory_order_relaxed);
    return got >= 0 && static_cast<size_t>(got) == n;
  }

  /// The time of its status does not count: renaming the file, or another to its name, changes that too.
  Status unchanged() const override {
    struct stat now = {};
    if (::fstat(fd_, &now) != 0) {
      const int error = errno;
      return Status(Code::kIo, "its status cannot be read: " + errno_text(error)).native(error);
    }
    if (static_cast<uint64_t>(now.st_size) == size_ && now.st_mtim.tv_sec == written_.tv_sec &&
        now.st_mtim.tv_nsec == written_.tv_nsec)
      return {};
    return {Code::kIo,
            "the file has been written to since it was opened; write a new file, rename it to this "
            "name and load it again"};
  }

 private:
  Status shorter() const {
    struct stat now = {};
    const std::string has = ::fstat(fd_, &now) == 0 ? std::to_string(now.st_size) : "fewer";
    return {Code::kIo,
            "the file has " + has + " bytes now, it had " + std::to_string(size_) + " when it was opened"};
  }

  int fd_;
  timespec written_;
  FileHandle owned_;
  std::atomic<bool> tells_cached_{true};  // not every file system does
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) { size_ = bytes.size(); }

  Status read(uint64_t offset, void* dst, size_t n) override {
    if (n > 0) std::memcpy(dst, bytes_.data() + offset, n);
    return {};
  }
  bool read_cached(uint64_t offset, void* dst, size_t n) override { return read(offset, dst, n).ok(); }

 private:
  std::span<const std::byte> bytes_;
};

class PartSource final : public ByteSource {
 public:
  PartSource(std::shared_ptr<ByteSource> whole, uint64_t offset, uint64_t length)
      : whole_(std::move(whole)), offset_(offset) {
    size_ = length;
  }
  bool stays() const override { return whole_->stays(); }
  Status read(uint64_t offset, void* dst, size_t n) override {
    return whole_->read(offset_ + offset, dst, n);
  }
  bool read_cached(uint64_t offset, void* dst, size_t n) override {
    return whole_->read_cached(offset_ + offset, dst, n);
  }
  Status unchanged() const override { return whole_->unchanged(); }

 private:
  const std::shared_ptr<ByteSource> whole_;
  const uint64_t offset_;
};

Status open_error(int error) {
  const Code code = error == ENOENT || error == ENOTDIR ? Code::kNotFound : Code::kIo;
  return Status(code, "cannot be opened: " + errno_text(error)).native(error);
}

Result<std::unique_ptr<ByteSource>> source_of(int fd, FileHandle owned) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0) return open_error(errno);
  if (!S_ISREG(info.st_mode)) return Status(Code::kIo, "is not a regular file");
  return std::unique_ptr<ByteSource>(new FileSource(fd, info, std::move(owned)));
}

}  // namespace

Result<std::unique_ptr<ByteSource>> ByteSource::open_file(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer. It has no effect on regular files.
  FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int fd = file.get();
  return fd < 0 ? open_error(errno) : source_of(fd, std::move(file));
}

Result<std::unique_ptr<ByteSource>> ByteSource::over_file(int fd) { return source_of(fd, FileHandle()); }

std::unique_ptr<ByteSource> ByteSource::part_of(std::shared_ptr<ByteSource> whole, uint64_t offset,
                                                uint64_t length) {
  return std::make_unique<PartSource>(std::move(whole), offset, length);
}

std::unique_ptr<ByteSource> ByteSource::over_memory(std::span<const std::byte> bytes) {
  return std::make_unique<MemorySource>(bytes);
}

}  // namespace dpi
