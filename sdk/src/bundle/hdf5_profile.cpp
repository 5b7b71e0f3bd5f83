#include "bundle/hdf5_profile.hpp"

#include <hdf5.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <string_view>
#include <unordered_map>

#include "base/checked.hpp"
#include "base/text.hpp"

namespace dpi {
namespace {

using Type = DataSetInfo::Type;

constexpr int kMaxRank = 8;
constexpr uint64_t kMaxManifest = 256u << 20;
constexpr size_t kMaxDataSets = 1'100'000;  // extents plus data sets without elements

/// Debian's libhdf5 is not thread-safe: one open at a time.
std::mutex& hdf5_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// HDF5 prints its errors to stderr unless told otherwise; the setting is the process's, so it is put back.
class QuietHdf5 {
 public:
  QuietHdf5() {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~QuietHdf5() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }
  QuietHdf5(const QuietHdf5&) = delete;
  QuietHdf5& operator=(const QuietHdf5&) = delete;

 private:
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  bool ok() const { return id_ >= 0; }
  hid_t get() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

/// Lets the core driver use the image where it lies: without these it would copy the whole length, holes
/// included. (A memfd cannot be opened by name: libhdf5 resolves /proc/self/fd/N to a path that does not
/// exist.)
void* image_malloc(size_t, H5FD_file_image_op_t, void* udata) {
  return static_cast<const MetadataImage*>(udata)->data();
}
void* image_memcpy(void* dst, const void* src, size_t, H5FD_file_image_op_t, void*) {
  return dst == src ? dst : nullptr;
}
void* image_realloc(void*, size_t, H5FD_file_image_op_t, void*) { return nullptr; }
herr_t image_free(void*, H5FD_file_image_op_t, void*) { return 0; }
void* image_udata_copy(void* udata) { return udata; }
herr_t image_udata_free(void*) { return 0; }

bool use_image(hid_t access, const MetadataImage& image) {
  H5FD_file_image_callbacks_t calls = {image_malloc,
                                       image_memcpy,
                                       image_realloc,
                                       image_free,
                                       image_udata_copy,
                                       image_udata_free,
                                       const_cast<MetadataImage*>(&image)};
  return H5Pset_fapl_core(access, 1u << 16, false) >= 0 && H5Pset_file_image_callbacks(access, &calls) >= 0 &&
         H5Pset_file_image(access, image.data(), image.size()) >= 0;
}

Status at_path(const std::string& path, const std::string& text) {
  return {Code::kBadModel, path + ": " + text};
}

bool good_link_name(std::string_view name) {
  return !name.empty() && name.size() <= 200 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
  });
}

struct Links {
  bool no_memory = false;  // nothing else throws in the callback
  std::vector<std::string> names;
  std::string refused;  // name of the link that `status` is about
  Status status;
};

/// H5Literate's callback: collects names, stops at the first link that is not a plain one. Must not throw
/// into C.
herr_t collect_link(hid_t, const char* name, const H5L_info_t* info, void* user) noexcept {
  auto* links = static_cast<Links*>(user);
  try {
    if (info->type != H5L_TYPE_HARD) {
      links->status = bad_model("is a soft, external or user-defined link");
    } else if (!good_link_name(name)) {
      links->status = bad_model(
          "its name is not of the form that data sets have, expected 1 to 200 characters of A-Z a-z 0-9 _ . "
          "-");
    } else if (links->names.size() >= kMaxDataSets) {
      links->status = bad_model("has more than " + std::to_string(kMaxDataSets) + " data sets");
    } else {
      links->names.emplace_back(name);
      return 0;
    }
  } catch (...) {
    links->no_memory = true;
    return -1;
  }
  links->refused = in_quotes(name);
  return 1;
}

Result<std::vector<std::string>> links_of(hid_t group, const std::string& path) {
  Links links;
  hsize_t index = 0;
  const herr_t rc = H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, &index, collect_link, &links);
  if (links.no_memory) throw std::bad_alloc();
  if (!links.status.ok()) {
    return std::move(links.status).within(path + "/" + links.refused.substr(1, links.refused.size() - 2));
  }
  if (rc != 0)
    return at_path(path.empty() ? "/" : path, "its links cannot be read: the HDF5 structures are damaged");
  return std::move(links.names);
}

Result<Type> element_type(hid_t data_set, const std::string& path) {
  const Handle type(H5Dget_type(data_set), H5Tclose);
  if (!type.ok()) return at_path(path, "its element type cannot be read");
  const std::pair<hid_t, Type> kAllowed[] = {{H5T_STD_U8LE, Type::kU8},   {H5T_STD_I8LE, Type::kI8},
                                             {H5T_STD_U16LE, Type::kU16}, {H5T_STD_I64LE, Type::kI64},
                                             {H5T_STD_U64LE, Type::kU64}, {H5T_IEEE_F32LE, Type::kF32}};
  for (const auto& [id, name] : kAllowed) {
    if (H5Tequal(type.get(), id) > 0) return name;
  }
  return at_path(path,
                 "element type outside the profile, expected little-endian u8, i8, u16, i64, u64 or f32");
}

Result<std::vector<int64_t>> shape_of(hid_t data_set, const std::string& path) {
  const Handle space(H5Dget_space(data_set), H5Sclose);
  if (!space.ok() || H5Sget_simple_extent_type(space.get()) != H5S_SIMPLE) {
    return at_path(path, "is not a simple array");
  }
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 1 || rank > kMaxRank)
    return at_path(path, "has " + std::to_string(rank) + " dims, expected 1 to 8");
  hsize_t dims[kMaxRank] = {};
  hsize_t max_dims[kMaxRank] = {};
  if (H5Sget_simple_extent_dims(space.get(), dims, max_dims) != rank)
    return at_path(path, "its shape cannot be read");
  std::vector<int64_t> shape;
  int64_t elements = 1;
  for (int i = 0; i < rank; ++i) {
    if (max_dims[i] != dims[i]) return at_path(path, "can be extended, expected a fixed shape");
    const auto n = dims[i] > INT64_MAX ? std::nullopt : checked_mul(elements, static_cast<int64_t>(dims[i]));
    if (!n) return at_path(path, "its shape has too many elements");
    elements = *n;
    shape.push_back(static_cast<int64_t>(dims[i]));
  }
  return shape;
}

Status check_storage(hid_t data_set, const std::string& path) {
  const Handle plist(H5Dget_create_plist(data_set), H5Pclose);
  if (!plist.ok()) return at_path(path, "its storage description cannot be read");
  if (H5Pget_layout(plist.get()) != H5D_CONTIGUOUS)
    return at_path(path, "is chunked, compact or virtual, expected contiguous");
  if (H5Pget_nfilters(plist.get()) != 0) return at_path(path, "has filters, expected none");
  if (H5Pget_external_count(plist.get()) != 0) return at_path(path, "is stored in other files");
  return {};
}

Result<DataSetInfo> describe(hid_t parent, const char* name, const std::string& path) {
  const Handle data_set(H5Dopen2(parent, name, H5P_DEFAULT), H5Dclose);
  if (!data_set.ok()) return at_path(path, "is not a data set, or its HDF5 structures are damaged");
  DataSetInfo info;
  info.path = path;
  DPI_ASSIGN_OR_RETURN(info.type, element_type(data_set.get(), path));
  DPI_ASSIGN_OR_RETURN(info.shape, shape_of(data_set.get(), path));
  DPI_RETURN_IF_ERROR(check_storage(data_set.get(), path));
  int64_t elements = 1;
  for (int64_t d : info.shape) elements *= d;
  if (elements == 0) return info;
  const auto bytes = checked_mul(elements, type_bytes(info.type));
  const haddr_t offset = H5Dget_offset(data_set.get());
  if (!bytes || offset == HADDR_UNDEF ||
      H5Dget_storage_size(data_set.get()) != static_cast<hsize_t>(*bytes)) {
    return at_path(path, "has no data of its size in the file");
  }
  info.extent.offset = offset;
  info.extent.length = static_cast<uint64_t>(*bytes);
  return info;
}

/// Collects data sets and pairs them with the extents of the user block.
class Walk {
 public:
  explicit Walk(const UserBlock& block) : block_(block), used_(block.extents.size(), false) {}

  Status run(hid_t file) {
    const Handle root(H5Gopen2(file, "/", H5P_DEFAULT), H5Gclose);
    if (!root.ok()) return at_path("/", "cannot be opened: the HDF5 structures are damaged");
    DPI_ASSIGN_OR_RETURN(const std::vector<std::string> names, links_of(root.get(), ""));
    for (const std::string& name : names) {
      if (name == "manifest") {
        DPI_RETURN_IF_ERROR(manifest(root.get()));
      } else if (name == "tables" || name == "params" || name == "encoders" || name == "golden") {
        DPI_RETURN_IF_ERROR(group(root.get(), name));
      } else {
        return at_path("/" + name,
                       "is not part of a bundle (/manifest, /tables, /params, /encoders, /golden)");
      }
    }
    if (out_.manifest.length == 0) return at_path("/manifest", "is missing or empty");
    return finish();
  }

  Hdf5Contents take() { return std::move(out_); }

 private:
  Status manifest(hid_t root) {
    DPI_ASSIGN_OR_RETURN(const DataSetInfo info, describe(root, "manifest", "/manifest"));
    if (info.type != Type::kU8 || info.shape.size() != 1) {
      return at_path("/manifest", std::string("is ") + shape_text(info.shape) + " " + type_name(info.type) +
                                      ", expected one dimension of u8");
    }
    if (info.extent.length == 0) return {};
    if (info.extent.length > kMaxManifest) return at_path("/manifest", "is larger than 256 MiB");
    const Extent& m = info.extent;
    const bool inside =
        m.offset >= block_.bytes && m.offset <= block_.file_bytes && m.length <= block_.file_bytes - m.offset;
    const bool overlaps = std::any_of(block_.extents.begin(), block_.extents.end(), [&](const Extent& e) {
      return e.offset < m.offset + m.length && m.offset < e.offset + e.length;
    });
    if (!inside || overlaps) return at_path("/manifest", "lies outside the file or inside an extent");
    out_.manifest = m;
    return {};
  }

  Status group(hid_t root, const std::string& name) {
    const std::string path = "/" + name;
    const Handle group(H5Gopen2(root, name.c_str(), H5P_DEFAULT), H5Gclose);
    if (!group.ok()) return at_path(path, "is not a group");
    DPI_ASSIGN_OR_RETURN(const std::vector<std::string> names, links_of(group.get(), path));
    for (const std::string& link : names) {
      const std::string full = path + "/" + link;
      if (out_.data_sets.size() >= kMaxDataSets) return at_path(full, "too many data sets");
      DPI_ASSIGN_OR_RETURN(DataSetInfo info, describe(group.get(), link.c_str(), full));
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
    info->extent.digest = it->digest;
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

  const UserBlock& block_;
  std::vector<bool> used_;
  Hdf5Contents out_;
};

Status check_user_block_size(hid_t file, const UserBlock& block) {
  const Handle plist(H5Fget_create_plist(file), H5Pclose);
  hsize_t bytes = 0;
  if (!plist.ok() || H5Pget_userblock(plist.get(), &bytes) < 0 || bytes != block.bytes) {
    return bad_model("HDF5 says its user block has " + std::to_string(bytes) + " bytes, the bundle says " +
                     std::to_string(block.bytes));
  }
  return {};
}

}  // namespace

const char* type_name(Type type) {
  static constexpr const char* kNames[] = {"u8", "i8", "u16", "i64", "u64", "f32"};
  return kNames[static_cast<int>(type)];
}

int64_t type_bytes(Type type) {
  static constexpr int64_t kBytes[] = {1, 1, 2, 8, 8, 4};
  return kBytes[static_cast<int>(type)];
}

Result<Hdf5Contents> read_hdf5_profile(const MetadataImage& image, const UserBlock& block) {
  const std::lock_guard<std::mutex> lock(hdf5_mutex());
  const QuietHdf5 quiet;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  if (!access.ok() || !use_image(access.get(), image) ||
      H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG) < 0) {
    return internal_error("libhdf5 cannot be initialised");
  }
#if H5_VERSION_GE(1, 10, 7)
  H5Pset_file_locking(access.get(), false, true);
#endif
  // The core driver refuses an image when a file of this name exists; below a device there is never one.
  const Handle file(H5Fopen("/dev/null/bundle", H5F_ACC_RDONLY, access.get()), H5Fclose);
  if (!file.ok()) return bad_model("its HDF5 part cannot be opened");
  DPI_RETURN_IF_ERROR(check_user_block_size(file.get(), block));
  Walk walk(block);
  DPI_RETURN_IF_ERROR(walk.run(file.get()));
  return walk.take();
}

}  // namespace dpi
