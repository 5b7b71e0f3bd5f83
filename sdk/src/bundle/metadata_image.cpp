#include "bundle/metadata_image.hpp"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/text.hpp"

namespace dpi {
namespace {

using HashState = std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)>;

Status io_error(const char* what) {
  const int error = errno;
  return Status(Code::kIo, std::string(what) + ": " + errno_text(error)).native(error);
}

/// The user block as the digest of the other bytes covers it: its own field and the signature read as zeros.
void hash_user_block(XXH3_state_t* state, const UserBlock& block) {
  std::vector<std::byte> bytes = block.raw;
  std::fill(bytes.begin() + 40, bytes.begin() + 48, std::byte{0});
  std::fill(bytes.begin() + 64, bytes.begin() + 128, std::byte{0});
  XXH3_64bits_update(state, bytes.data(), bytes.size());
  const std::vector<std::byte> zeros(std::min<uint64_t>(block.bytes - bytes.size(), 1u << 16));
  for (uint64_t left = block.bytes - bytes.size(); left > 0;) {
    const uint64_t n = std::min<uint64_t>(left, zeros.size());
    XXH3_64bits_update(state, zeros.data(), n);
    left -= n;
  }
}

/// What the object headers and indexes of so many data sets can reasonably need, and the largest manifest.
uint64_t metadata_limit(const UserBlock& block) {
  constexpr uint64_t kFixed = (256u + 64u) << 20;
  constexpr uint64_t kPerExtent = 4096;
  return kFixed + kPerExtent * block.extents.size();
}

}  // namespace

MetadataImage::MetadataImage(MetadataImage&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MetadataImage::~MetadataImage() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (fd_ >= 0) ::close(fd_);
}

Status MetadataImage::map(size_t size) {
  void* p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd_, 0);
  if (p == MAP_FAILED) return io_error("memory for the metadata");
  data_ = p;
  size_ = size;
  return {};
}

Status MetadataImage::write(uint64_t offset, const void* src, size_t n) const {
  const auto* from = static_cast<const char*>(src);
  while (n > 0) {
    const ssize_t put = ::pwrite(fd_, from, n, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return io_error("copy of the metadata");
    from += put;
    offset += static_cast<uint64_t>(put);
    n -= static_cast<size_t>(put);
  }
  return {};
}

Status MetadataImage::read(uint64_t offset, void* dst, size_t n) const {
  auto* to = static_cast<char*>(dst);
  while (n > 0) {
    const ssize_t got = ::pread(fd_, to, n, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return io_error("copy of the metadata");
    if (got == 0) return bad_model("read past the end of the metadata");
    to += got;
    offset += static_cast<uint64_t>(got);
    n -= static_cast<size_t>(got);
  }
  return {};
}

Status MetadataImage::fill(ByteSource& source, const UserBlock& block) {
  const HashState state(XXH3_createState(), &XXH3_freeState);
  if (state == nullptr) return {Code::kOutOfMemory, "hash state"};
  XXH3_64bits_reset(state.get());
  hash_user_block(state.get(), block);
  DPI_RETURN_IF_ERROR(for_each_metadata_block(
      source, block, [&](uint64_t offset, std::span<const std::byte> bytes) -> Status {
        XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
        return write(offset, bytes.data(), bytes.size());
      }));
  const uint64_t found = XXH3_64bits_digest(state.get());
  if (found != block.digest) {
    return bad_model("is damaged: the digest of its metadata is " + hex_text(found) +
                     ", its user block says " + hex_text(block.digest));
  }
  return {};
}

Result<MetadataImage> MetadataImage::make(ByteSource& source, const UserBlock& block) {
  if (block.metadata_bytes() > metadata_limit(block)) {
    return bad_model("has " + std::to_string(block.metadata_bytes()) +
                     " bytes outside its extents, at most " + std::to_string(metadata_limit(block)) +
                     " are allowed");
  }
  const int fd = ::memfd_create("dpi-bundle-metadata", MFD_CLOEXEC);
  if (fd < 0) return io_error("memory for the metadata");
  MetadataImage image(fd);
  if (::ftruncate(fd, static_cast<off_t>(block.file_bytes)) != 0) return io_error("memory for the metadata");
  DPI_RETURN_IF_ERROR(image.fill(source, block));
  DPI_RETURN_IF_ERROR(image.map(block.file_bytes));
  return image;
}

}  // namespace dpi
