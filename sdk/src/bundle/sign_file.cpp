// Signatures are written into the room that every user block has for them, with one write: the HDF5 part, and
// so every hash, stays as it is. A reader that meets half of that write finds the digest wrong.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/text.hpp"
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

Status write_at(const std::string& path, const std::byte* bytes, size_t n, uint64_t offset) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return write_error("cannot be opened for writing: ", errno);
  const ssize_t wrote = ::pwrite(fd, bytes, n, static_cast<off_t>(offset));
  Status out;
  if (wrote != static_cast<ssize_t>(n)) {
    out = write_error("cannot be written: ", wrote < 0 ? errno : EIO);
  } else if (::fsync(fd) != 0) {
    out = write_error("cannot be written to its device: ", errno);
  }
  if (::close(fd) != 0 && out.ok()) return write_error("cannot be closed: ", errno);
  return out;
}

/// Replaces the signatures of a block that was read from `path`, and the digest, which covers them.
Status write_signatures(const std::string& path, ByteSource& source, UserBlock block,
                        const std::vector<Signature>& signatures) {
  DPI_ASSIGN_OR_RETURN(const Metadata metadata, Metadata::read(source, block));
  put_signatures(signatures, &block);
  DPI_ASSIGN_OR_RETURN(const uint64_t digest, metadata.digest(block));
  std::memcpy(block.raw.data() + Form::kDigest, &digest, sizeof digest);
  return write_at(path, block.raw.data() + Form::kDigest, Form::kExtents - Form::kDigest, Form::kDigest);
}

std::vector<Signature> without(const std::vector<Signature>& signatures, const KeyId& id) {
  std::vector<Signature> out;
  std::copy_if(signatures.begin(), signatures.end(), std::back_inserter(out),
               [&](const Signature& s) { return s.key != id; });
  return out;
}

/// Signs what `checked` is, if the file is still that.
Status add_signature(const std::string& path, const Bundle& checked, const SigningKey& key) {
  DPI_ASSIGN_OR_RETURN(const auto source, ByteSource::open_file(path));
  DPI_ASSIGN_OR_RETURN(const UserBlock block, read_user_block(*source));
  if (block.self_digest != checked.content_digest())
    return {Code::kIo, "changed while its hashes were checked"};
  DPI_ASSIGN_OR_RETURN(const Signature mine, sign_block(block, key));
  std::vector<Signature> all = without(block.signatures, mine.key);
  if (all.size() == Form::kMaxSignatures)
    return invalid_argument("has 8 signatures by other keys, and room for no more; remove one of them");
  all.push_back(mine);
  return write_signatures(path, *source, block, all);
}

Status remove_from(const std::string& path, const KeyId& id) {
  DPI_ASSIGN_OR_RETURN(const auto source, ByteSource::open_file(path));
  DPI_ASSIGN_OR_RETURN(const UserBlock block, read_user_block(*source));
  const std::vector<Signature> left = without(block.signatures, id);
  if (left.size() == block.signatures.size())
    return {Code::kNotFound, "has no signature by key " + hex_bytes(id)};
  return write_signatures(path, *source, block, left);
}

Status within_file(const std::string& path, Status status) {
  return status.ok() ? status : std::move(status).within(path);
}

}  // namespace

Status sign_file(const std::string& path, const SigningKey& key, const HashWorkers& workers,
                 const std::function<void(uint64_t, uint64_t)>& progress) {
  BundleOptions options;
  options.check_hashes = true;
  options.workers = workers;
  DPI_ASSIGN_OR_RETURN(const std::unique_ptr<Bundle> bundle, Bundle::open(path, options));
  DPI_RETURN_IF_ERROR(bundle->verify_all(progress));
  return within_file(path, add_signature(path, *bundle, key));
}

Status remove_signature(const std::string& path, const KeyId& id) {
  return within_file(path, remove_from(path, id));
}

}  // namespace dpi
