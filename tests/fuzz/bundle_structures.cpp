// The walk over HDF5's structures: superblock, object headers, symbol tables, local heaps (bundle_image.hpp).
#include <algorithm>
#include <cstring>
#include <set>

#include "fuzz/bundle_image.hpp"

namespace dpi::fuzz {
namespace {

constexpr size_t kMaxFields = 20'000;
constexpr uint64_t kUndefined = UINT64_MAX;

class Walk {
 public:
  Walk(const Image& image, Structures* out) : image_(image), out_(out), base_(number_at(image, 16, 8)) {}

  void run() {
    if (base_ > image_.size() || image_.size() - base_ < 96) return;
    for (size_t at = 8; at < 24; ++at) add(base_ + at, 1, FieldKind::kByte);
    for (const size_t at : {24, 32, 40, 48, 56, 64, 80, 88}) add(base_ + at, 8, FieldKind::kAddress);
    add(base_ + 72, 4, FieldKind::kType);
    header("", number(base_ + 64, 8), 0);
  }

 private:
  uint64_t number(size_t at, size_t bytes) const { return number_at(image_, at, bytes); }

  void add(size_t at, size_t bytes, FieldKind kind) {
    if (out_->fields.size() < kMaxFields && at + bytes <= image_.size())
      out_->fields.push_back({at, bytes, kind});
  }

  /// The place of an address when `bytes` lie there that no structure has taken, else 0.
  size_t place(uint64_t address, size_t bytes) {
    if (address > image_.size() || base_ + address + bytes > image_.size()) return 0;
    return seen_.insert(address).second ? static_cast<size_t>(base_ + address) : 0;
  }

  void header(const std::string& path, uint64_t address, int depth) {
    const size_t at = place(address, 16);
    if (at == 0 || depth > 3) return;
    for (const size_t k : {0, 1, 4}) add(at + k, 1, FieldKind::kByte);
    add(at + 2, 2, FieldKind::kCount);
    add(at + 8, 4, FieldKind::kLength);
    DataSetPlaces set;
    set.path = path;
    messages(path, at + 16, number(at + 8, 4), depth, &set);
    if (set.layout != 0) out_->sets.push_back(set);
  }

  void messages(const std::string& path, size_t at, uint64_t bytes, int depth, DataSetPlaces* set) {
    const size_t end = bytes < image_.size() - at ? at + bytes : image_.size();
    while (at + 8 <= end) {
      const uint64_t type = number(at, 2), size = number(at + 2, 2);
      add(at, 2, FieldKind::kType);
      add(at + 2, 2, FieldKind::kLength);
      add(at + 4, 1, FieldKind::kByte);
      if (size > end - at - 8) return;
      message(path, type, at + 8, size, depth, set);
      at += 8 + size;
    }
  }

  void message(const std::string& path, uint64_t type, size_t at, size_t size, int depth,
               DataSetPlaces* set) {
    const auto words = [&](size_t from, size_t n, FieldKind kind) {
      for (size_t k = 0; k < n && from + 8 * k + 8 <= size; ++k) add(at + from + 8 * k, 8, kind);
    };
    const auto single = [&](size_t from, size_t n) {
      for (size_t k = from; k < from + n && k < size; ++k) add(at + k, 1, FieldKind::kByte);
    };
    if (type == 0x01) {  // dataspace
      set->dataspace = at;
      single(0, 3);
      words(8, 2 * number(at + 1, 1), FieldKind::kDim);  // the largest ones too
    } else if (type == 0x03) {
      set->datatype = at, set->datatype_bytes = size;
      single(0, size);
    } else if (type == 0x08) {
      set->layout = at, set->layout_bytes = size;
      single(0, 2);
      add(at + 2, 8, FieldKind::kAddress);
      add(at + 10, 8, FieldKind::kLength);
    } else if (type == 0x11 && size >= 16) {
      words(0, 2, FieldKind::kAddress);
      group(path, number(at, 8), number(at + 8, 8), depth);
    } else if (type == 0x10 && size >= 16) {
      words(0, 1, FieldKind::kAddress);
      words(8, 1, FieldKind::kLength);
      const size_t next = place(number(at, 8), 8);
      if (next != 0) messages(path, next, number(at + 8, 8), depth + 1, set);
    } else {
      single(0, size);
    }
  }

  void group(const std::string& path, uint64_t tree, uint64_t heap, int depth) {
    const size_t at = place(heap, 32);
    size_t names = 0;
    if (at != 0) {
      for (size_t k = 0; k < 5; ++k) add(at + k, 1, FieldKind::kByte);
      add(at + 8, 8, FieldKind::kLength);
      add(at + 16, 8, FieldKind::kLength);
      add(at + 24, 8, FieldKind::kAddress);
      const uint64_t data = number(at + 24, 8), bytes = number(at + 8, 8);
      if (data < image_.size() && bytes < image_.size() && base_ + data + bytes <= image_.size()) {
        names = base_ + data;
        for (size_t k = 0; k < bytes; ++k) add(names + k, 1, FieldKind::kByte);
      }
    }
    node(path, tree, names, depth);
  }

  void node(const std::string& path, uint64_t address, size_t names, int depth) {
    const size_t at = place(address, 24);
    if (at == 0 || depth > 3) return;
    const uint64_t n = number(at + 6, 2);
    for (size_t k = 0; k < 6; ++k) add(at + k, 1, FieldKind::kByte);
    add(at + 6, 2, FieldKind::kCount);
    add(at + 8, 8, FieldKind::kAddress);
    add(at + 16, 8, FieldKind::kAddress);
    const bool leaf = number(at, 4) != 0 && std::memcmp(image_.data() + at, "SNOD", 4) == 0;
    if (leaf) return;
    const bool below = number(at + 5, 1) != 0;
    for (uint64_t k = 0; k < n && k < 64; ++k) {
      add(at + 24 + 16 * k, 8, FieldKind::kLength);
      add(at + 32 + 16 * k, 8, FieldKind::kAddress);
      const uint64_t child = number(at + 32 + 16 * k, 8);
      below ? node(path, child, names, depth + 1) : links(path, child, names, depth);
    }
  }

  void links(const std::string& path, uint64_t address, size_t names, int depth) {
    const size_t at = place(address, 8);
    if (at == 0) return;
    for (size_t k = 0; k < 6; ++k) add(at + k, 1, FieldKind::kByte);
    add(at + 6, 2, FieldKind::kCount);
    for (uint64_t k = 0; k < number(at + 6, 2) && k < 64; ++k) {
      const size_t entry = at + 8 + 40 * k;
      if (entry + 40 > image_.size()) return;
      add(entry, 8, FieldKind::kLength);
      add(entry + 8, 8, FieldKind::kAddress);
      add(entry + 16, 4, FieldKind::kType);
      header(path + "/" + name(names, number(entry, 8)), number(entry + 8, 8), depth + 1);
    }
  }

  std::string name(size_t names, uint64_t offset) const {
    if (names == 0 || offset >= image_.size() - names) return {};
    const auto begin = image_.begin() + static_cast<ptrdiff_t>(names + offset);
    const auto limit = begin + std::min<ptrdiff_t>(256, image_.end() - begin);
    return {begin, std::find(begin, limit, uint8_t{0})};
  }

  const Image& image_;
  Structures* out_;
  uint64_t base_;
  std::set<uint64_t> seen_;
};

}  // namespace

Structures structures_of(const Image& image) {
  Structures out;
  Walk(image, &out).run();
  return out;
}

std::string manifest_of(const Image& image, const Structures& structures) {
  for (const DataSetPlaces& set : structures.sets) {
    if (set.path != "/manifest") continue;
    const uint64_t base = number_at(image, 16, 8);
    const uint64_t address = number_at(image, set.layout + 2, 8), size = number_at(image, set.layout + 10, 8);
    if (address == kUndefined || address > image.size() || size > image.size()) return {};
    if (base + address + size > image.size()) return {};
    const auto begin = image.begin() + static_cast<ptrdiff_t>(base + address);
    return {begin, begin + static_cast<ptrdiff_t>(size)};
  }
  return {};
}

}  // namespace dpi::fuzz
