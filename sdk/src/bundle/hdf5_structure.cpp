#include "bundle/hdf5_structure.hpp"

#include <algorithm>
#include <cstring>

#include "base/text.hpp"

namespace dpi {
namespace {

constexpr uint64_t kUndefined = UINT64_MAX;
constexpr uint64_t kMaxMessages = 64;        // of one object
constexpr uint64_t kMaxHeaderBytes = 65536;  // of one piece of an object header
constexpr uint64_t kMaxObjects = 1'200'000;
constexpr uint64_t kMaxNodes = 1'000'000;  // B-tree and symbol table nodes
constexpr int kMaxLevel = 16;              // of a B-tree
constexpr int kMaxDepth = 2;               // root, group, data set

enum Message : uint32_t {
  kNil = 0x00,
  kDataspace = 0x01,
  kDatatype = 0x03,
  kFillOld = 0x04,
  kFill = 0x05,
  kLayout = 0x08,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kModified = 0x12,
};

/// Addresses in HDF5's structures count from the end of the user block.
class StructureWalk {
 public:
  StructureWalk(const MetadataImage& image, const UserBlock& block) : image_(image), block_(block) {}

  Status run() {
    unsigned char s[96];
    DPI_RETURN_IF_ERROR(get(0, s, sizeof s));
    static constexpr unsigned char kSignature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    if (std::memcmp(s, kSignature, 8) != 0) return fault(0, "no HDF5 superblock");
    if (s[8] != 0 || s[9] != 0 || s[10] != 0 || s[12] != 0 || s[13] != 8 || s[14] != 8) {
      return fault(8, "not HDF5's earliest file format (superblock 0, 8-byte addresses)");
    }
    if (u64(s + 24) != block_.bytes) return fault(24, "base address is not the end of the user block");
    if (u64(s + 32) != kUndefined || u64(s + 48) != kUndefined)
      return fault(32, "free-space or driver information");
    return object(u64(s + 64), "", 0);
  }

 private:
  static uint64_t u64(const unsigned char* p) {
    uint64_t v = 0;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static uint32_t u32(const unsigned char* p) {
    uint32_t v = 0;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static uint32_t u16(const unsigned char* p) {
    return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8;
  }

  Status fault(uint64_t address, const std::string& what) const {
    const std::string place = path_.empty() ? "" : path_ + ": ";
    return bad_model(place + what + " (HDF5 structure at byte " + std::to_string(address + block_.bytes) +
                     ")");
  }

  Status get(uint64_t address, unsigned char* dst, size_t n) const {
    const uint64_t room = block_.file_bytes - block_.bytes;
    if (address > room || n > room - address) return fault(address, "lies outside the file");
    return image_.read(block_.bytes + address, dst, n);
  }

  Status object(uint64_t address, const std::string& path, int depth) {
    path_ = path;
    if (depth > kMaxDepth) return fault(address, "groups are nested deeper than one level");
    if (++objects_ > kMaxObjects) return fault(address, "too many objects");
    unsigned char head[16];
    DPI_RETURN_IF_ERROR(get(address, head, sizeof head));
    if (head[0] != 1) return fault(address, "not a version 1 object header");
    uint64_t left = u16(head + 2);
    if (left > kMaxMessages) return fault(address, std::to_string(left) + " messages in one object header");
    DPI_RETURN_IF_ERROR(messages(address + 16, u32(head + 8), depth, &left));
    return {};
  }

  /// One piece of an object header; continuation pieces are walked when they are met. `left` counts down over
  /// all pieces.
  Status messages(uint64_t address, uint64_t bytes, int depth, uint64_t* left) {
    if (bytes > kMaxHeaderBytes)
      return fault(address, "object header of " + std::to_string(bytes) + " bytes");
    std::vector<unsigned char> data(bytes);
    DPI_RETURN_IF_ERROR(get(address, data.data(), data.size()));
    for (uint64_t at = 0; *left > 0 && at + 8 <= bytes;) {
      const unsigned char* m = data.data() + at;
      const uint64_t size = u16(m + 2);
      if (size > bytes - at - 8) return fault(address + at, "a message is longer than its object header");
      --*left;
      DPI_RETURN_IF_ERROR(message(address + at, m, size, depth, left));
      at += 8 + size;
    }
    return {};
  }

  Status message(uint64_t address, const unsigned char* m, uint64_t size, int depth, uint64_t* left) {
    const uint32_t type = u16(m);
    constexpr unsigned kSharedFlag = 2;
    if ((m[4] & kSharedFlag) != 0) return fault(address, "a shared message");
    switch (type) {
      case kNil:
      case kDataspace:
      case kDatatype:
      case kFillOld:
      case kFill:
      case kLayout:
      case kModified:
        return {};
      case kContinuation:
        if (size < 16 || *left == 0) return fault(address, "a continuation without messages");
        return messages(u64(m + 8), u64(m + 16), depth, left);
      case kSymbolTable:
        if (size < 16) return fault(address, "a short symbol table message");
        return group(u64(m + 8), u64(m + 16), depth);
      default:
        return fault(address, "message type " + std::to_string(type) +
                                  " has no place in a bundle (attributes, other links, filters, files ...)");
    }
  }

  Status group(uint64_t tree_address, uint64_t heap_address, int depth) {
    const Group outer = group_;
    group_ = {path_, 0, 0};
    DPI_RETURN_IF_ERROR(heap(heap_address));
    DPI_RETURN_IF_ERROR(tree(tree_address, -1, depth));
    path_ = group_.path;
    group_ = outer;
    return {};
  }

  Status heap(uint64_t address) {
    unsigned char h[32];
    DPI_RETURN_IF_ERROR(get(address, h, sizeof h));
    if (std::memcmp(h, "HEAP", 4) != 0 || h[4] != 0) return fault(address, "not a local heap");
    group_.names = u64(h + 24);
    group_.names_bytes = u64(h + 8);
    const uint64_t room = block_.file_bytes - block_.bytes;
    if (group_.names > room || group_.names_bytes > room - group_.names)
      return fault(address, "a local heap outside the file");
    return {};
  }

  /// The path of a member of the current group, for texts: cut, and with '?' for what is not printable.
  std::string member_path(uint64_t name_offset) const {
    constexpr uint64_t kShown = 200;
    unsigned char name[kShown] = {};
    const uint64_t n =
        name_offset < group_.names_bytes ? std::min(kShown, group_.names_bytes - name_offset) : 0;
    if (!get(group_.names + name_offset, name, n).ok()) return group_.path + "/?";
    std::string path = group_.path + "/";
    for (uint64_t i = 0; i < n && name[i] != 0; ++i)
      path += name[i] >= 0x20 && name[i] < 0x7f ? static_cast<char>(name[i]) : '?';
    return path;
  }

  /// `level`: what the parent says, -1 for the root of a tree. Levels fall by one, so that no walk is
  /// endless.
  Status tree(uint64_t address, int level, int depth) {
    if (++nodes_ > kMaxNodes) return fault(address, "too many B-tree nodes");
    unsigned char head[24];
    DPI_RETURN_IF_ERROR(get(address, head, sizeof head));
    if (std::memcmp(head, "TREE", 4) != 0 || head[4] != 0) return fault(address, "not a group's B-tree");
    if (head[5] > kMaxLevel || (level >= 0 && head[5] != level))
      return fault(address, "a B-tree level out of order");
    const uint32_t used = u16(head + 6);
    std::vector<unsigned char> entries(static_cast<size_t>(used) * 16 + 8);
    DPI_RETURN_IF_ERROR(get(address + sizeof head, entries.data(), entries.size()));
    for (uint32_t i = 0; i < used; ++i) {
      const uint64_t child = u64(entries.data() + 8 + static_cast<size_t>(i) * 16);
      DPI_RETURN_IF_ERROR(head[5] > 0 ? tree(child, head[5] - 1, depth) : symbols(child, depth));
    }
    return {};
  }

  Status symbols(uint64_t address, int depth) {
    if (++nodes_ > kMaxNodes) return fault(address, "too many symbol table nodes");
    unsigned char head[8];
    DPI_RETURN_IF_ERROR(get(address, head, sizeof head));
    if (std::memcmp(head, "SNOD", 4) != 0 || head[4] != 1) return fault(address, "not a symbol table node");
    std::vector<unsigned char> entries(static_cast<size_t>(u16(head + 6)) * 40);
    DPI_RETURN_IF_ERROR(get(address + sizeof head, entries.data(), entries.size()));
    for (size_t at = 0; at < entries.size(); at += 40) {
      const uint64_t header = u64(entries.data() + at + 8);
      constexpr uint32_t kSoftLink = 2;
      if (u32(entries.data() + at + 16) == kSoftLink || header == kUndefined)
        continue;  // refused by name later
      DPI_RETURN_IF_ERROR(object(header, member_path(u64(entries.data() + at)), depth + 1));
    }
    return {};
  }

  const MetadataImage& image_;
  const UserBlock& block_;
  std::string path_;  // of the object under way, for texts
  struct Group {
    std::string path;
    uint64_t names = 0;  // data of its local heap
    uint64_t names_bytes = 0;
  } group_;
  uint64_t objects_ = 0;
  uint64_t nodes_ = 0;
};

}  // namespace

Status check_hdf5_structure(const MetadataImage& image, const UserBlock& block) {
  return StructureWalk(image, block).run();
}

}  // namespace dpi
