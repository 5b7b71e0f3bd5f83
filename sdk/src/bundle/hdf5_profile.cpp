#include "bundle/hdf5_profile.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"
#include "bundle/hdf5/data_set.hpp"
#include "bundle/hdf5/group.hpp"

namespace dpi {
namespace {

using Type = DataSetInfo::Type;
using hdf5::Link;

constexpr uint64_t kMaxManifest = 256u << 20;

Status at_path(const std::string& path, const std::string& text) {
  return {Code::kBadModel, path + ": " + text};
}

/// Collects data sets and pairs them with the extents of the user block.
class Walk {
 public:
  Walk(hdf5::File& file, const UserBlock& block)
      : file_(file), block_(block), used_(block.extents.size(), false) {}

  Result<Hdf5Contents> run() {
    DPI_ASSIGN_OR_RETURN(const std::vector<Link> links, hdf5::read_group(file_, "", file_.root()));
    for (const Link& link : links) {
      if (link.name == "manifest") {
        DPI_RETURN_IF_ERROR(manifest(link.address));
      } else if (is_group(link.name)) {
        DPI_RETURN_IF_ERROR(group("/" + link.name, link.address));
      } else {
        return at_path("/" + link.name,
                       delta()
                           ? "is not part of a delta (/manifest, /new, /tables, /params, /encoders, /golden)"
                           : "is not part of a bundle (/manifest, /tables, /params, /encoders, /golden)");
      }
    }
    if (out_.manifest.empty()) return at_path("/manifest", "is missing or empty");
    DPI_RETURN_IF_ERROR(finish());
    return std::move(out_);
  }

 private:
  bool delta() const { return block_.kind == FileKind::kDelta; }
  bool is_group(const std::string& name) const {
    return name == "tables" || name == "params" || name == "encoders" || name == "golden" ||
           (delta() && name == "new");
  }

  Status manifest(uint64_t address) {
    const std::string path = "/manifest";
    DPI_ASSIGN_OR_RETURN(const DataSetInfo info, hdf5::read_data_set(file_, path, address));
    if (info.type != Type::kU8 || info.shape.size() != 1) {
      return at_path(path, std::string("is ") + shape_text(info.shape) + " " + type_name(info.type) +
                               ", expected one dimension of u8");
    }
    if (info.extent.length == 0) return {};
    if (info.extent.length > kMaxManifest) return at_path(path, "is larger than 256 MiB");
    DPI_ASSIGN_OR_RETURN(
        out_.manifest, file_.claim(path, info.extent.offset - file_.base(), info.extent.length, "its data"));
    return {};
  }

  Status group(const std::string& path, uint64_t address) {
    DPI_ASSIGN_OR_RETURN(const std::vector<Link> links, hdf5::read_group(file_, path, address));
    for (const Link& link : links) {
      const std::string full = path + "/" + link.name;
      if (out_.data_sets.size() >= hdf5::kMaxLinks) return at_path(full, "too many data sets");
      DPI_ASSIGN_OR_RETURN(DataSetInfo info, hdf5::read_data_set(file_, full, link.address));
      if (info.extent.length > 0) DPI_RETURN_IF_ERROR(match_extent(&info));
      out_.data_sets.push_back(std::move(info));
    }
    return {};
  }

  Status match_extent(DataSetInfo* info) {
    const auto& list = block_.extents;
    const auto it = std::lower_bound(list.begin(), list.end(), info->extent.offset,
                                     [](const Extent& e, uint64_t offset) { return e.offset < offset; });
    if (it == list.end() || it->offset != info->extent.offset || it->length != info->extent.length) {
      return at_path(info->path, "its data (offset " + std::to_string(info->extent.offset) + ", " +
                                     std::to_string(info->extent.length) +
                                     " bytes) is not an extent of the user block");
    }
    const auto index = static_cast<size_t>(it - list.begin());
    if (used_[index]) return at_path(info->path, "shares its data with another data set");
    used_[index] = true;
    info->extent = *it;
    return {};
  }

  Status finish() {
    const auto unused = std::find(used_.begin(), used_.end(), false);
    if (unused != used_.end()) {
      return bad_model("extent " + std::to_string(unused - used_.begin()) +
                       " of the user block belongs to no data set");
    }
    std::sort(out_.data_sets.begin(), out_.data_sets.end(),
              [](const DataSetInfo& a, const DataSetInfo& b) { return a.path < b.path; });
    return {};
  }

  hdf5::File& file_;
  const UserBlock& block_;
  std::vector<bool> used_;
  Hdf5Contents out_;
};

}  // namespace

const char* type_name(Type type) {
  static constexpr const char* kNames[] = {"u8", "i8", "u16", "i64", "u64", "f32"};
  return kNames[static_cast<int>(type)];
}

Type storage_type(kernels::DType dtype) {
  if (dtype == kernels::DType::kF32) return Type::kF32;
  if (kernels::row_form(dtype).bits == 16) return Type::kU16;
  return dtype == kernels::DType::kI8 ? Type::kI8 : Type::kU8;
}

int64_t storage_columns(kernels::DType dtype, int64_t dim) {
  return kernels::element_row_bytes(dtype, dim) / type_bytes(storage_type(dtype));
}

Type scalar_type(int32_t bytes) { return bytes == 2 ? Type::kU16 : Type::kF32; }

int64_t type_bytes(Type type) {
  static constexpr int64_t kBytes[] = {1, 1, 2, 8, 8, 4};
  return kBytes[static_cast<int>(type)];
}

Result<Hdf5Contents> read_hdf5_profile(hdf5::File& file, const UserBlock& block) {
  return Walk(file, block).run();
}

}  // namespace dpi
