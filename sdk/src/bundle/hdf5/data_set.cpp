#include "bundle/hdf5/data_set.hpp"

#include <cstring>

#include "base/checked.hpp"
#include "bundle/hdf5/object_header.hpp"
#include "bundle/hdf5_profile.hpp"

namespace dpi::hdf5 {
namespace {

using Type = DataSetInfo::Type;

constexpr unsigned kMaxRank = 8;

/// A datatype message of version 1, up to where its padding starts: class and version, 24 bits of flags,
/// bytes of an element, bit offset, precision; of a float also the places and sizes of exponent and mantissa,
/// and the bias.
struct TypeForm {
  Type type;
  size_t size;
  unsigned char bytes[20];
};
constexpr TypeForm kTypes[] = {
    {Type::kU8, 12, {0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0}},
    {Type::kI8, 12, {0x10, 8, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0}},
    {Type::kU16, 12, {0x10, 0, 0, 0, 2, 0, 0, 0, 0, 0, 16, 0}},
    {Type::kI64, 12, {0x10, 8, 0, 0, 8, 0, 0, 0, 0, 0, 64, 0}},
    {Type::kU64, 12, {0x10, 0, 0, 0, 8, 0, 0, 0, 0, 0, 64, 0}},
    {Type::kF32, 20, {0x11, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0}},
};

class DataSetReader {
 public:
  DataSetReader(File& file, const std::string& path) : file_(file), path_(path) {}

  Result<DataSetInfo> run(uint64_t address) {
    DPI_ASSIGN_OR_RETURN(const ObjectHeader header, read_object_header(file_, path_, address));
    if (header.symbol_table) return file_.fault(path_, address, "is a group, expected a data set");
    if (!header.datatype || !header.dataspace || !header.layout) {
      return file_.fault(path_, address,
                         "is not a data set: it needs an element type, a shape and a storage layout");
    }
    out_.path = path_;
    DPI_RETURN_IF_ERROR(type(*header.datatype));
    DPI_RETURN_IF_ERROR(shape(*header.dataspace));
    if (header.fill) DPI_RETURN_IF_ERROR(fill(*header.fill));
    DPI_RETURN_IF_ERROR(storage(*header.layout));
    return std::move(out_);
  }

 private:
  Status type(const Message& m) {
    for (const TypeForm& form : kTypes) {
      if (!Cursor(m.body).starts_with(form.bytes, form.size)) continue;
      out_.type = form.type;
      return {};
    }
    return file_.fault(
        path_, m.address,
        "element type outside the profile, expected little-endian u8, i8, u16, i64, u64 or f32");
  }

  Status shape(const Message& m) {
    Cursor c(m.body);
    if (c.u8() != 1) return file_.fault(path_, m.address, "not a version 1 dataspace");
    const unsigned rank = c.u8();
    const unsigned flags = c.u8();
    c.skip(5);
    if (rank < 1 || rank > kMaxRank)
      return file_.fault(path_, m.address, "has " + std::to_string(rank) + " dims, expected 1 to 8");
    constexpr unsigned kHasLargest = 1;
    if ((flags & ~kHasLargest) != 0) return file_.fault(path_, m.address, "unknown dataspace flags");
    uint64_t dims[kMaxRank] = {};
    for (unsigned i = 0; i < rank; ++i) dims[i] = c.u64();
    for (unsigned i = 0; i < rank && flags != 0; ++i) {
      if (c.u64() != dims[i] && c.ok())
        return file_.fault(path_, m.address, "can be extended, expected a fixed shape");
    }
    if (!c.ok()) return file_.fault(path_, m.address, "its dataspace is cut off");
    for (unsigned i = 0; i < rank; ++i) {
      const auto n =
          dims[i] > INT64_MAX ? std::nullopt : checked_mul(elements_, static_cast<int64_t>(dims[i]));
      if (!n) return file_.fault(path_, m.address, "its shape has too many elements");
      elements_ = *n;
      out_.shape.push_back(static_cast<int64_t>(dims[i]));
    }
    return {};
  }

  Status fill(const Message& m) {
    Cursor c(m.body);
    if (c.u8() != 2) return file_.fault(path_, m.address, "not a version 2 fill value message");
    c.skip(2);  // when space is made and filled
    const unsigned defined = c.u8();
    if (defined > 1) return file_.fault(path_, m.address, "a fill value message of no known form");
    const uint32_t bytes = defined == 1 ? c.u32() : 0;
    if (!c.ok()) return file_.fault(path_, m.address, "its fill value message is cut off");
    if (bytes != 0) return file_.fault(path_, m.address, "has a fill value, expected none");
    return {};
  }

  Status storage(const Message& m) {
    Cursor c(m.body);
    constexpr unsigned kContiguous = 1;
    const unsigned version = c.u8();
    const unsigned layout = c.u8();
    if (version != 3 || layout != kContiguous)
      return file_.fault(path_, m.address,
                         "is chunked, compact or virtual, expected contiguous (layout version 3)");
    const uint64_t address = c.u64();
    const uint64_t bytes = c.u64();
    if (!c.ok()) return file_.fault(path_, m.address, "its layout message is cut off");
    const auto needed = checked_mul(elements_, type_bytes(out_.type));
    if (!needed || bytes != static_cast<uint64_t>(*needed))
      return file_.fault(path_, m.address, "has no data of its size in the file");
    if (bytes == 0) return {};
    out_.extent.length = bytes;
    if (address == kUndefinedAddress || __builtin_add_overflow(address, file_.base(), &out_.extent.offset))
      return file_.fault(path_, m.address, "has no data of its size in the file");
    return {};
  }

  File& file_;
  const std::string& path_;
  int64_t elements_ = 1;
  DataSetInfo out_;
};

}  // namespace

Result<DataSetInfo> read_data_set(File& file, const std::string& path, uint64_t address) {
  return DataSetReader(file, path).run(address);
}

}  // namespace dpi::hdf5
