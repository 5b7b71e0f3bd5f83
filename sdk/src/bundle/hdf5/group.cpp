#include "bundle/hdf5/group.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/text.hpp"
#include "bundle/hdf5/object_header.hpp"

namespace dpi::hdf5 {
namespace {

constexpr size_t kMaxName = 200;
constexpr unsigned kMaxLevel = 16;  // of a B-tree
constexpr uint64_t kLinkBytes = 40;

bool good_link_name(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

class GroupReader {
 public:
  GroupReader(File& file, const std::string& path)
      : file_(file), path_(path), shown_(path.empty() ? "/" : path) {}

  Result<std::vector<Link>> run(uint64_t address) {
    DPI_ASSIGN_OR_RETURN(const ObjectHeader header, read_object_header(file_, shown_, address));
    if (!header.symbol_table || header.datatype || header.dataspace || header.layout || header.fill)
      return file_.fault(shown_, address, "is not a group");
    Cursor c(header.symbol_table->body);
    const uint64_t tree_address = c.u64();
    const uint64_t heap_address = c.u64();
    if (!c.ok()) return file_.fault(shown_, header.symbol_table->address, "a short symbol table message");
    DPI_RETURN_IF_ERROR(heap(heap_address));
    DPI_RETURN_IF_ERROR(tree(tree_address, std::nullopt));
    return std::move(links_);
  }

 private:
  Status heap(uint64_t address) {
    DPI_ASSIGN_OR_RETURN(const Bytes bytes, file_.claim(shown_, address, 32, "its local heap"));
    Cursor c(bytes);
    if (!c.starts_with("HEAP\0\0\0", 8)) return file_.fault(shown_, address, "not a version 0 local heap");
    const uint64_t size = c.u64();
    const uint64_t free = c.u64();
    DPI_ASSIGN_OR_RETURN(names_, file_.claim(shown_, c.u64(), size, "the names in its local heap"));
    return free_list(address, free);
  }

  /// Nothing here needs the free list, but HDF5 tools follow it: it must stay inside the heap and end.
  Status free_list(uint64_t heap_address, uint64_t at) {
    constexpr uint64_t kEnd = 1;
    constexpr uint64_t kFreeHead = 16;
    for (uint64_t left = names_.size(); at != kEnd;) {
      if (at > names_.size() || names_.size() - at < kFreeHead)
        return file_.fault(shown_, heap_address, "its heap's free list leaves the heap");
      file_.count_again(kFreeHead);
      Cursor c(names_.subspan(at));
      const uint64_t next = c.u64();
      const uint64_t size = c.u64();
      if (size < kFreeHead || size > names_.size() - at || size > left)
        return file_.fault(shown_, heap_address, "its heap's free list leaves the heap or does not end");
      left -= size;
      at = next;
    }
    return {};
  }

  /// `level`: what the parent says, nothing for the root of a tree. Levels fall by one, so the depth is
  /// bounded; no node is met twice, because each is claimed.
  Status tree(uint64_t address, std::optional<unsigned> level) {
    constexpr uint64_t kHead = 24;
    const uint64_t room = kHead + 16 * file_.node_entries() + 8;
    DPI_ASSIGN_OR_RETURN(const Bytes bytes, file_.claim(shown_, address, room, "a B-tree node"));
    Cursor c(bytes);
    if (!c.starts_with("TREE\0", 5)) return file_.fault(shown_, address, "not a group's B-tree");
    const unsigned own_level = c.u8();
    if (own_level > kMaxLevel || (level && own_level != *level))
      return file_.fault(shown_, address, "a B-tree level out of order");
    const uint64_t used = c.u16();
    if (used > file_.node_entries())
      return file_.fault(shown_, address,
                         "a B-tree node of " + std::to_string(used) + " entries, it has room for " +
                             std::to_string(file_.node_entries()));
    c.skip(16);  // siblings: a walk from above needs none
    for (uint64_t i = 0; i < used; ++i) {
      c.skip(8);  // key: only a search by name needs it
      const uint64_t child = c.u64();
      DPI_RETURN_IF_ERROR(own_level > 0 ? tree(child, own_level - 1) : node(child));
    }
    return {};
  }

  Status node(uint64_t address) {
    const uint64_t room = 8 + kLinkBytes * file_.leaf_links();
    DPI_ASSIGN_OR_RETURN(const Bytes bytes, file_.claim(shown_, address, room, "a symbol table node"));
    Cursor c(bytes);
    if (!c.starts_with("SNOD\1", 5)) return file_.fault(shown_, address, "not a version 1 symbol table node");
    c.skip(1);
    const uint64_t used = c.u16();
    if (used > file_.leaf_links())
      return file_.fault(shown_, address,
                         "a symbol table node of " + std::to_string(used) + " links, it has room for " +
                             std::to_string(file_.leaf_links()));
    for (uint64_t i = 0; i < used; ++i) DPI_RETURN_IF_ERROR(link(address, c.bytes(kLinkBytes)));
    return {};
  }

  Status link(uint64_t node_address, Bytes entry) {
    Cursor c(entry);
    DPI_ASSIGN_OR_RETURN(const std::string_view name, name_at(node_address, c.u64()));
    const uint64_t address = c.u64();
    constexpr uint32_t kPlainLink = 1;  // 0: nothing cached, 1: a group's addresses cached
    if (c.u32() > kPlainLink || address == kUndefinedAddress) {
      return file_.fault(path_ + "/" + printable(name), node_address,
                         "is a soft, external or user-defined link");
    }
    if (!good_link_name(name)) {
      return file_.fault(path_ + "/" + printable(name), node_address,
                         "its name is not of the form that data sets have, expected 1 to 200 characters of "
                         "A-Z a-z 0-9 _ . -");
    }
    if (!links_.empty() && links_.back().name >= name)
      return file_.fault(path_ + "/" + printable(name), node_address,
                         "its name is out of order or there twice");
    if (links_.size() >= kMaxLinks)
      return file_.fault(shown_, node_address, "has more than " + std::to_string(kMaxLinks) + " data sets");
    links_.push_back({std::string(name), address});
    return {};
  }

  /// The name at `offset` of the heap; of a longer one than is allowed only the start.
  Result<std::string_view> name_at(uint64_t node_address, uint64_t offset) {
    if (offset < names_.size()) {
      const size_t n = std::min<size_t>(names_.size() - offset, kMaxName + 1);
      const auto* text = reinterpret_cast<const char*>(names_.data()) + offset;
      const size_t length = ::strnlen(text, n);
      file_.count_again(length);
      if (offset + length < names_.size()) return std::string_view(text, length);
    }
    return file_.fault(shown_, node_address,
                       "a link's name at byte " + std::to_string(offset) +
                           " of its local heap does not end inside the heap");
  }

  static std::string printable(std::string_view name) {
    const std::string quoted = in_quotes(name);
    return quoted.substr(1, quoted.size() - 2);
  }

  File& file_;
  const std::string& path_;
  const std::string shown_;  // in texts
  Bytes names_;
  std::vector<Link> links_;
};

}  // namespace

Result<std::vector<Link>> read_group(File& file, const std::string& path, uint64_t address) {
  return GroupReader(file, path).run(address);
}

}  // namespace dpi::hdf5
