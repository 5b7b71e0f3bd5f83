#include "store/rocksdb/file_check.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/file_handle.hpp"

namespace dpi::rocks {
namespace {

// A block-based file of format version 5 ends with: metaindex block, footer of 53 bytes (kind of checksum,
// places of the metaindex and index blocks as varints, zeros, version, magic). A block is followed by its
// compression (1 byte) and its checksum (4 bytes).
constexpr size_t kFooter = 53;
constexpr size_t kTrailer = 5;
constexpr uint64_t kMagic = 0x88e241b785f4cff7;
constexpr char kXxh3 = 4;
constexpr uint64_t kLargestBlock = uint64_t{1} << 20;  // of the two looked at; they have about 1 KB
constexpr uint32_t kLastByteFactor = 0x6b9083d9;

struct BlockHandle {
  uint64_t offset = 0, size = 0;
};

bool take_varint(std::string_view* from, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 64 && !from->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from->front());
    from->remove_prefix(1);
    *value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool take_handle(std::string_view* from, BlockHandle* handle) {
  return take_varint(from, &handle->offset) && take_varint(from, &handle->size);
}

bool read_at(int fd, uint64_t offset, size_t n, std::string* to) {
  to->resize(n);
  return pread(fd, to->data(), n, static_cast<off_t>(offset)) == static_cast<ssize_t>(n);
}

/// The block without its trailer; false when it is not what its checksum says.
bool read_block(int fd, const BlockHandle& handle, uint64_t file_size, std::string* block) {
  if (handle.size > kLargestBlock || handle.offset > file_size ||
      handle.size + kTrailer > file_size - handle.offset)
    return false;
  const auto size = static_cast<size_t>(handle.size);
  if (!read_at(fd, handle.offset, size + kTrailer, block)) return false;
  uint32_t stored = 0;
  std::memcpy(&stored, block->data() + size + 1, sizeof(stored));
  const auto kind = static_cast<unsigned char>((*block)[size]);
  const auto sum = static_cast<uint32_t>(XXH3_64bits(block->data(), size)) ^ (kind * kLastByteFactor);
  block->resize(size);
  return sum == stored;
}

/// Entries of a metaindex block: bytes shared with the key before (none here), key's, value's, key, value.
bool find_properties(std::string_view block, BlockHandle* handle) {
  uint64_t shared = 0, key = 0, value = 0;
  while (take_varint(&block, &shared) && take_varint(&block, &key) && take_varint(&block, &value)) {
    if (shared != 0 || key > block.size() || value > block.size() - key) return false;
    std::string_view at = block.substr(static_cast<size_t>(key), static_cast<size_t>(value));
    if (block.substr(0, static_cast<size_t>(key)) == "rocksdb.properties") return take_handle(&at, handle);
    block.remove_prefix(static_cast<size_t>(key + value));
  }
  return false;
}

enum class Verdict { kSound, kPassedOver, kDamaged };

Verdict look_at(const std::string& path) {
  const FileHandle file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found{};
  if (file.get() < 0 || fstat(file.get(), &found) != 0) return Verdict::kPassedOver;
  const auto size = static_cast<uint64_t>(found.st_size);
  std::string footer, block;
  if (size < kFooter || !read_at(file.get(), size - kFooter, kFooter, &footer)) return Verdict::kPassedOver;
  uint64_t magic = 0;
  std::memcpy(&magic, footer.data() + kFooter - sizeof(magic), sizeof(magic));
  if (magic != kMagic) return Verdict::kPassedOver;
  if (footer[0] != kXxh3) return Verdict::kPassedOver;  // not written here, or RocksDB finds no block right
  std::string_view places(footer.data() + 1, kFooter - 1);
  BlockHandle metaindex, properties;
  if (!take_handle(&places, &metaindex)) return Verdict::kDamaged;
  if (!read_block(file.get(), metaindex, size, &block)) return Verdict::kDamaged;
  if (!find_properties(block, &properties)) return Verdict::kDamaged;
  return read_block(file.get(), properties, size, &block) ? Verdict::kSound : Verdict::kDamaged;
}

}  // namespace

Status check_files(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(directory.c_str()), &closedir);
  while (dir != nullptr) {
    const dirent* entry = readdir(dir.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (!name.ends_with(".sst")) continue;
    const std::string path = directory + "/" + std::string(name);
    if (look_at(path) != Verdict::kDamaged) continue;
    return Status(Code::kIo, path + ": is damaged; take the directory away and load its tables again");
  }
  return {};
}

}  // namespace dpi::rocks
