#include "tests/gpu/tools/hdf5_writer.hpp"

#include <algorithm>
#include <stdexcept>

namespace dpi::gpu {
namespace {

constexpr uint64_t kUndefined = UINT64_MAX;
constexpr uint64_t kTreeRank = 16;  // a B-tree node has room for twice as many children

/// Little-endian fields one after another.
class Fields {
 public:
  Fields& add(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  Fields& add(const std::string& text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return *this;
  }
  Fields& add(const Fields& other) {
    bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
    return *this;
  }
  Fields& pad(uint64_t size) {
    bytes_.resize(std::max<size_t>(size, bytes_.size()));
    return *this;
  }
  uint64_t size() const { return bytes_.size(); }
  const std::vector<char>& bytes() const { return bytes_; }

 private:
  std::vector<char> bytes_;
};

Fields message(unsigned type, unsigned flags, Fields body) {
  body.pad((body.size() + 7) / 8 * 8);
  return Fields().add(type, 2).add(body.size(), 2).add(flags, 4).add(body);
}

Fields object_header(const std::vector<Fields>& messages) {
  Fields all;
  for (const Fields& m : messages) all.add(m);
  return Fields().add(1, 2).add(messages.size(), 2).add(1, 4).add(all.size(), 8).add(all);
}

Fields data_set_header(Hdf5Writer::Type type, const std::vector<uint64_t>& dims, uint64_t address,
                       uint64_t bytes) {
  Fields space, kind;
  space.add(1, 1).add(dims.size(), 1).add(0, 6);
  for (const uint64_t d : dims) space.add(d, 8);
  if (type == Hdf5Writer::Type::kU8) {
    kind.add(0x10, 4).add(1, 4).add(0, 2).add(8, 2);
  } else {
    kind.add(0x1f2011, 4).add(4, 4).add(0, 2).add(32, 2).add(0x17000817, 4).add(127, 4);
  }
  return object_header({message(1, 0, space), message(3, 1, kind),
                        message(5, 1, Fields().add(0x01010102, 4).add(0, 4)),
                        message(8, 0, Fields().add(0x0103, 2).add(address, 8).add(bytes, 8))});
}

}  // namespace

Hdf5Writer::Hdf5Writer(const std::string& path, uint64_t block)
    : out_(path, std::ios::binary | std::ios::trunc), block_(block) {
  const std::vector<char> zeros(block);
  out_.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
  append(std::vector<char>(96));  // the superblock, once the root's place is known
}

uint64_t Hdf5Writer::append(const std::vector<char>& bytes) {
  out_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  end_ += bytes.size();
  return end_ - bytes.size();
}

uint64_t Hdf5Writer::align(uint64_t to) {
  append(std::vector<char>((to - end_ % to) % to));
  return end_;
}

uint64_t Hdf5Writer::put(const std::string& path, Type type, const std::vector<uint64_t>& dims,
                         const void* data) {
  uint64_t bytes = type == Type::kU8 ? 1 : 4;
  for (const uint64_t d : dims) bytes *= d;
  const uint64_t at = align(64);
  out_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  end_ += bytes;
  align(8);
  const uint64_t header = append(data_set_header(type, dims, at, bytes).bytes());
  const size_t slash = path.rfind('/');
  groups_[path.substr(0, slash)][path.substr(slash + 1)] = header;
  return block_ + at;
}

/// One symbol table node that holds all members, and a B-tree of one node above it.
Hdf5Writer::Group Hdf5Writer::write_group(const Members& members, uint64_t leaf_rank) {
  Fields names, links;
  names.add(0, 8);  // the empty name
  uint64_t last = 0;
  for (const auto& [name, header] : members) {
    last = names.size();
    links.add(last, 8).add(header, 8).add(0, 8).add(0, 8).add(0, 8);
    names.add(name).add(0, 1).pad((names.size() + 7) / 8 * 8);
  }
  Group g;
  const uint64_t names_at = append(names.bytes());
  g.heap = append(Fields().add("HEAP").add(0, 4).add(names.size(), 8).add(1, 8).add(names_at, 8).bytes());
  const Fields node =
      Fields().add("SNOD").add(1, 2).add(members.size(), 2).add(links).pad(8 + 80 * leaf_rank);
  const uint64_t node_at = append(node.bytes());
  Fields tree;
  tree.add("TREE")
      .add(0, 2)
      .add(1, 2)
      .add(kUndefined, 8)
      .add(kUndefined, 8)
      .add(0, 8)
      .add(node_at, 8)
      .add(last, 8);
  g.tree = append(tree.pad(24 + 8 + 32 * kTreeRank).bytes());
  g.header = append(object_header({message(17, 0, Fields().add(g.tree, 8).add(g.heap, 8))}).bytes());
  return g;
}

void Hdf5Writer::write_superblock(uint64_t root, uint64_t leaf_rank) {
  Fields s;
  s.add("\x89HDF\r\n\x1a\n")
      .add(0, 5)
      .add(8, 1)
      .add(8, 1)
      .add(0, 1)
      .add(leaf_rank, 2)
      .add(kTreeRank, 2)
      .add(0, 4);
  s.add(block_, 8).add(kUndefined, 8).add(block_ + end_, 8).add(kUndefined, 8).add(0, 8).add(root, 8).pad(96);
  out_.seekp(static_cast<std::streamoff>(block_));
  out_.write(s.bytes().data(), static_cast<std::streamsize>(s.size()));
}

uint64_t Hdf5Writer::finish() {
  uint64_t leaf_rank = 4;
  for (const auto& [name, members] : groups_)
    leaf_rank = std::max<uint64_t>(leaf_rank, (members.size() + 1) / 2);
  if (leaf_rank > 30000) throw std::runtime_error("too many data sets for one node");
  Members root = groups_[""];
  for (const auto& [name, members] : groups_) {
    if (!name.empty()) root[name.substr(1)] = write_group(members, leaf_rank).header;
  }
  write_superblock(write_group(root, leaf_rank).header, leaf_rank);
  out_.close();
  if (!out_) throw std::runtime_error("the file cannot be written");
  return block_ + end_;
}

}  // namespace dpi::gpu
