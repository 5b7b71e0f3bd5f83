#include "bundle/hdf5/file.hpp"

namespace dpi::hdf5 {
namespace {

constexpr uint64_t kSuperblockBytes = 96;
constexpr char kSignature[8] = {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
constexpr char kNoPath[] = "";

}  // namespace

Result<File> File::open(const Metadata& metadata, const UserBlock& block) {
  File file(metadata, block);
  DPI_RETURN_IF_ERROR(file.read_superblock());
  return file;
}

Status File::read_superblock() {
  DPI_ASSIGN_OR_RETURN(const Bytes bytes, claim(kNoPath, 0, kSuperblockBytes, "the HDF5 superblock"));
  Cursor s(bytes);
  if (!s.starts_with(kSignature, sizeof kSignature)) return fault(kNoPath, 0, "no HDF5 superblock");
  // versions of superblock, free space, root entry; reserved; version of shared messages; address, length
  // bytes
  static constexpr unsigned char kEarliest[8] = {0, 0, 0, 0, 0, 8, 8, 0};
  if (!s.starts_with(kEarliest, sizeof kEarliest))
    return fault(kNoPath, 8, "not HDF5's earliest file format (superblock 0, 8-byte addresses)");
  leaf_links_ = 2 * uint64_t{s.u16()};
  node_entries_ = 2 * uint64_t{s.u16()};
  if (leaf_links_ == 0 || node_entries_ == 0) return fault(kNoPath, 16, "group nodes without places");
  if (s.u32() != 0) return fault(kNoPath, 20, "consistency flags, expected none");
  if (s.u64() != block_->bytes) return fault(kNoPath, 24, "base address is not the end of the user block");
  if (s.u64() != kUndefinedAddress) return fault(kNoPath, 32, "free-space information");
  const uint64_t end = s.u64();
  if (end != block_->file_bytes) {
    return fault(kNoPath, 40,
                 "HDF5 says the file ends at byte " + std::to_string(end) + ", the user block says " +
                     std::to_string(block_->file_bytes));
  }
  if (s.u64() != kUndefinedAddress) return fault(kNoPath, 48, "driver information");
  s.skip(8);  // the root's name
  root_ = s.u64();
  return {};
}

Result<Bytes> File::claim(const std::string& path, uint64_t address, uint64_t n, const char* what) {
  const uint64_t room = block_->file_bytes - block_->bytes;
  const auto found = address > room ? std::nullopt : metadata_->find(block_->bytes + address, n);
  if (!found) return fault(path, address, std::string(what) + " lies outside the file or inside an extent");
  if (!claims_.take(address, n))
    return fault(path, address, std::string(what) + " lies where another structure lies");
  bytes_read_ += n;
  return *found;
}

Status File::fault(const std::string& path, uint64_t address, const std::string& text) const {
  uint64_t byte = 0;
  const bool fits = !__builtin_add_overflow(address, block_->bytes, &byte);
  return bad_model(path + (path.empty() ? "" : ": ") + text +
                   (fits ? " (HDF5 structure at byte " + std::to_string(byte) + ")"
                         : " (HDF5 structure at address " + std::to_string(address) + ")"));
}

}  // namespace dpi::hdf5
