// Signatures are written into the room that every user block has for them, with one write: the HDF5 part, and
// so every hash, stays as it is. A reader that meets half of that write finds the digest wrong.
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "base/file_handle.hpp"
#include "base/text.hpp"
#include "bundle/delta.hpp"
#include "bundle/metadata.hpp"
#include "bundle/signature.hpp"

namespace dpi {
namespace {

using Form = UserBlockForm;

void put_signatures(const std::vector<Signature>& signatures, UserBlock* block) {
  const uint64_t count = signatures.size();
  std::memcpy(block->raw.data() + Form::kSignatureCount, &count, sizeof count);
  std::byte* at = block->raw.data() + Form::kSignatures;
  std::fill_n(at, Form::kMaxSignatures * Form::kSignatureBytes, std::byte{0});
  for (const Signature& s : signatures) {
    std::memcpy(at, s.key.data(), s.key.size());
    std::memcpy(at + s.key.size(), s.bytes.data(), s.bytes.size());
    at += Form::kSignatureBytes;
  }
}

Status write_error(const char* what, int error) {
  return Status(Code::kIo, std::string(what) + errno_text(error)).native(error);
}

/// A file that stays open and locked while its signatures change, so that of two who sign it the second sees
/// what the first did.
class LockedFile {
 public:
  static Result<std::unique_ptr<LockedFile>> open(const std::string& path) {
    FileHandle opened(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    const int fd = opened.get();
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
      return std::move(Status(Code::kNotFound, "cannot be opened: " + errno_text(errno))).native(errno);
    if (fd < 0) return write_error("cannot be opened for writing: ", errno);
    std::unique_ptr<LockedFile> file(new LockedFile(path, std::move(opened)));
    while (::flock(fd, LOCK_EX) != 0)
      if (errno != EINTR) return write_error("cannot be locked: ", errno);
    return file;
  }
  Result<std::unique_ptr<ByteSource>> source() const { return ByteSource::over_file(file_.get()); }

  Status write(std::span<const std::byte> bytes, uint64_t offset) const {
    const ssize_t wrote = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (wrote != static_cast<ssize_t>(bytes.size()))
      return write_error("cannot be written: ", wrote < 0 ? errno : EIO);
    if (::fsync(file_.get()) != 0) return write_error("cannot be written to its device: ", errno);
    struct stat mine = {}, named = {};
    if (::fstat(file_.get(), &mine) == 0 && ::stat(path_.c_str(), &named) == 0 &&
        mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
      return {};
    return {Code::kIo, "was replaced by another file meanwhile"};
  }

 private:
  LockedFile(std::string path, FileHandle file) : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  FileHandle file_;
};

/// The bytes of a file with a user block that was read before: what is checked of it is what will be signed,
/// whatever becomes of the file's own.
class PinnedBlock final : public ByteSource {
 public:
  PinnedBlock(std::unique_ptr<ByteSource> file, std::span<const std::byte> block)
      : file_(std::move(file)), block_(block) {
    size_ = file_->size();
  }

  Status read(uint64_t offset, void* dst, size_t n) override {
    const size_t pinned = offset < block_.size() ? std::min<uint64_t>(n, block_.size() - offset) : 0;
    if (pinned > 0) std::memcpy(dst, block_.data() + offset, pinned);
    return file_->read(offset + pinned, static_cast<std::byte*>(dst) + pinned, n - pinned);
  }

 private:
  std::unique_ptr<ByteSource> file_;
  std::span<const std::byte> block_;
};

/// Replaces the signatures of a block that was read from `file`, and the digest, which covers them.
Status write_signatures(const LockedFile& file, UserBlock block, const std::vector<Signature>& signatures) {
  DPI_ASSIGN_OR_RETURN(const auto source, file.source());
  DPI_ASSIGN_OR_RETURN(const Metadata metadata, Metadata::read(*source, block));
  put_signatures(signatures, &block);
  DPI_ASSIGN_OR_RETURN(const uint64_t digest, metadata.digest(block));
  std::memcpy(block.raw.data() + Form::kDigest, &digest, sizeof digest);
  return file.write(std::span(block.raw).subspan(Form::kDigest, Form::kExtents - Form::kDigest),
                    Form::kDigest);
}

std::vector<Signature> without(const std::vector<Signature>& signatures, const KeyId& id) {
  std::vector<Signature> out;
  std::copy_if(signatures.begin(), signatures.end(), std::back_inserter(out),
               [&](const Signature& s) { return s.key != id; });
  return out;
}

/// Signs what the block says, which was checked.
Status add_signature(const LockedFile& file, const UserBlock& block, const SigningKey& key) {
  DPI_ASSIGN_OR_RETURN(const Signature mine, sign_block(block, key));
  std::vector<Signature> all = without(block.signatures, mine.key);
  if (all.size() == Form::kMaxSignatures)
    return invalid_argument("has 8 signatures by other keys, and room for no more; remove one of them");
  all.push_back(mine);
  return write_signatures(file, block, all);
}

Result<UserBlock> block_of(const LockedFile& file) {
  DPI_ASSIGN_OR_RETURN(const auto source, file.source());
  DPI_ASSIGN_OR_RETURN(const FileKind kind, kind_of(*source));
  return read_user_block(*source, kind);
}

/// Reads the file whole, every hash.
Status check_whole(std::unique_ptr<ByteSource> source, const std::string& path, FileKind kind,
                   const HashWorkers& workers, const std::function<void(uint64_t, uint64_t)>& progress) {
  if (kind == FileKind::kDelta)
    return Delta::open_source(std::move(source), path, {"", true, workers}).status();
  BundleOptions options;
  options.check_hashes = true;
  options.workers = workers;
  DPI_ASSIGN_OR_RETURN(const auto bundle, Bundle::open_source(std::move(source), path, options));
  return bundle->verify_all(progress);
}

Status remove_from(const std::string& path, const KeyId& id) {
  DPI_ASSIGN_OR_RETURN(const auto file, LockedFile::open(path));
  DPI_ASSIGN_OR_RETURN(const UserBlock block, block_of(*file));
  const std::vector<Signature> left = without(block.signatures, id);
  if (left.size() == block.signatures.size())
    return {Code::kNotFound, "has no signature by key " + hex_bytes(id)};
  return write_signatures(*file, block, left);
}

Status within_file(const std::string& path, Status status) {
  return status.ok() ? status : std::move(status).within(path);
}

}  // namespace

Status sign_file(const std::string& path, const SigningKey& key, const HashWorkers& workers,
                 const std::function<void(uint64_t, uint64_t)>& progress) {
  auto file = LockedFile::open(path);
  if (!file.ok()) return std::move(file).status().within(path);
  auto block = block_of(**file);
  if (!block.ok()) return std::move(block).status().within(path);
  auto source = (*file)->source();
  if (!source.ok()) return std::move(source).status().within(path);
  DPI_RETURN_IF_ERROR(check_whole(std::make_unique<PinnedBlock>(std::move(source).value(), block->raw), path,
                                  block->kind, workers, progress));
  return within_file(path, add_signature(**file, *block, key));
}

Status remove_signature(const std::string& path, const KeyId& id) {
  return within_file(path, remove_from(path, id));
}

}  // namespace dpi
