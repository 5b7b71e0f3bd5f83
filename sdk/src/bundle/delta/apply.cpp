#include "bundle/apply.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/file_handle.hpp"
#include "base/text.hpp"
#include "bundle/byte_source.hpp"
#include "bundle/patch.hpp"

namespace dpi {
namespace {

Status io_error(const std::string& path, const char* what, int error) {
  return Status(Code::kIo, path + ": " + what + errno_text(error)).native(error);
}

bool same_file(int fd, const std::string& path) {
  struct stat mine = {}, named = {};
  return ::fstat(fd, &mine) == 0 && ::stat(path.c_str(), &named) == 0 && mine.st_ino == named.st_ino &&
         mine.st_dev == named.st_dev;
}

/// An open file that is written to; `name` for messages.
struct CopyTarget {
  int fd;
  std::string name;

  Status write(uint64_t offset, const void* bytes, size_t n) const {
    const auto* from = static_cast<const char*>(bytes);
    while (n > 0) {
      const ssize_t wrote = ::pwrite(fd, from, n, static_cast<off_t>(offset));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return io_error(name, "cannot be written: ", wrote < 0 ? errno : EIO);
      from += wrote;
      offset += static_cast<uint64_t>(wrote);
      n -= static_cast<size_t>(wrote);
    }
    return {};
  }
};

/// A file beside `path` that takes its place when it is complete. Locked while it is written; what a process
/// that was ended left behind is written over, what a link leads to is not.
class FileBeside {
 public:
  static Result<std::unique_ptr<FileBeside>> create(const std::string& path, uint64_t bytes) {
    const std::string part = path + ".part";
    for (;;) {
      FileHandle opened(::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0666));
      const int fd = opened.get();
      if (fd < 0 && errno == ELOOP)
        return io_error(part, "is a symbolic link, and what it leads to would be written over: ", ELOOP);
      if (fd < 0) return io_error(part, "cannot be written: ", errno);
      if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return io_error(part, "another process writes it: ", errno);
      if (!same_file(fd, part)) continue;  // it got its name meanwhile
      if (::ftruncate(fd, 0) != 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0)
        return io_error(part, "cannot be written: ", errno);
      struct stat old = {};
      if (::stat(path.c_str(), &old) == 0) (void)::fchmod(fd, old.st_mode & 0777);
      return std::unique_ptr<FileBeside>(new FileBeside(path, part, std::move(opened)));
    }
  }
  ~FileBeside() {
    if (!done_) ::unlink(part_.c_str());
  }

  CopyTarget target() const { return {file_.get(), part_}; }

  Status commit() {
    if (::fsync(file_.get()) != 0) return io_error(part_, "cannot be written to its device: ", errno);
    if (std::rename(part_.c_str(), path_.c_str()) != 0) return io_error(path_, "cannot be replaced: ", errno);
    done_ = true;
    const size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    const FileHandle opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (opened.get() >= 0 && ::fsync(opened.get()) != 0 && errno != EINVAL)
      return io_error(folder, "cannot be written to its device: ", errno);
    return {};
  }

 private:
  FileBeside(std::string path, std::string part, FileHandle file)
      : path_(std::move(path)), part_(std::move(part)), file_(std::move(file)) {}

  std::string path_, part_;
  FileHandle file_;
  bool done_ = false;
};

/// Writes what is read of it to a file, at the same place. Of what a bundle's reader reads and checks once,
/// nothing is left out, and nothing else is written.
class CopyingSource final : public ByteSource {
 public:
  CopyingSource(std::shared_ptr<Bundle> from, CopyTarget to) : from_(std::move(from)), to_(std::move(to)) {
    size_ = from_->bytes().size();
  }
  Status read(uint64_t offset, void* dst, size_t n) override {
    DPI_RETURN_IF_ERROR(from_->bytes().read(offset, dst, n));
    return to_.write(offset, dst, n);
  }

 private:
  std::shared_ptr<Bundle> from_;
  const CopyTarget to_;
};

/// A file without a name. Where the file system has none to give (overlays of older kernels, NFS), one that
/// has lost it.
int open_unnamed(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return fd;
  std::string name = folder + "/.fold.XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

Result<size_t> first_to_apply(const ContentHash& version, const std::string& base,
                              const std::vector<std::shared_ptr<const Delta>>& deltas) {
  for (size_t i = 1; i < deltas.size(); ++i) {
    if (deltas[i]->base() == deltas[i - 1]->version()) continue;
    return bad_model(deltas[i]->name() + ": starts from version " + hex_bytes(deltas[i]->base()) + ", and " +
                     deltas[i - 1]->name() + " before it gives version " +
                     hex_bytes(deltas[i - 1]->version()));
  }
  for (size_t i = deltas.size(); i > 0; --i)
    if (deltas[i - 1]->version() == version) return i;
  if (deltas.empty() || deltas[0]->base() == version) return size_t{0};
  for (size_t i = 1; i < deltas.size(); ++i)
    if (deltas[i]->base() == version) return i;
  return bad_model(deltas[0]->name() + ": starts from version " + hex_bytes(deltas[0]->base()) + ", " + base +
                   " is version " + hex_bytes(version));
}

Result<std::shared_ptr<Bundle>> open_patched(std::shared_ptr<Bundle> base,
                                             const std::vector<std::shared_ptr<const Delta>>& deltas,
                                             size_t first, const BundleOptions& options) {
  for (size_t i = first; i < deltas.size(); ++i) {
    const std::string name = base->name() + " + " + deltas[i]->name();
    DPI_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> bytes, patched(base, deltas[i]));
    DPI_ASSIGN_OR_RETURN(base, Bundle::open_source(std::move(bytes), name, options));
  }
  return base;
}

Status write_bundle_file(const std::shared_ptr<Bundle>& bundle, const std::string& path,
                         const BundleOptions& options,
                         const std::function<void(uint64_t, uint64_t)>& progress) {
  DPI_ASSIGN_OR_RETURN(const auto file, FileBeside::create(path, bundle->file_bytes()));
  DPI_ASSIGN_OR_RETURN(
      const auto copy,
      Bundle::open_source(std::make_unique<CopyingSource>(bundle, file->target()), bundle->name(), options));
  DPI_RETURN_IF_ERROR(copy->verify_all(progress));
  if (copy->content_hash() != bundle->content_hash())
    return {Code::kIo, bundle->name() + ": changed while it was read"};
  return file->commit();
}

Result<std::shared_ptr<Bundle>> copy_to_unnamed(const std::shared_ptr<Bundle>& bundle,
                                                const std::string& folder, const BundleOptions& options,
                                                const std::function<Status(uint64_t bytes)>& read) {
  const FileHandle file(open_unnamed(folder));
  if (file.get() < 0) return io_error(folder, "cannot hold an unnamed file: ", errno);
  if (::ftruncate(file.get(), static_cast<off_t>(bundle->file_bytes())) != 0)
    return io_error(folder, "cannot be written: ", errno);
  DPI_ASSIGN_OR_RETURN(const auto copy,
                       Bundle::open_source(std::make_unique<CopyingSource>(
                                               bundle, CopyTarget{file.get(), folder + " (no name)"}),
                                           bundle->name(), options));
  DPI_RETURN_IF_ERROR(copy->verify_rest(read));
  if (copy->content_hash() != bundle->content_hash())
    return Status(Code::kIo, bundle->name() + ": changed while it was read");
  // By the way that leads to it as long as it is open here: a name of its own it has not.
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> bytes,
                       ByteSource::open_file("/proc/self/fd/" + std::to_string(file.get())));
  DPI_ASSIGN_OR_RETURN(std::shared_ptr<Bundle> made,
                       Bundle::open_source(std::move(bytes), bundle->name(), options));
  return made;
}

}  // namespace dpi
