#include "bundle/delta.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>

#include "base/text.hpp"
#include "bundle/delta/delta_data.hpp"
#include "bundle/delta/read_delta_manifest.hpp"
#include "bundle/delta/result_image.hpp"
#include "bundle/extent_reader.hpp"
#include "bundle/hdf5_profile.hpp"
#include "bundle/manifest_read.hpp"
#include "bundle/metadata.hpp"
#include "bundle/row_parts.hpp"
#include "bundle/signature.hpp"

namespace dpi {
namespace {

using Type = DataSetInfo::Type;

class OpenDelta final : public Delta {
 public:
  OpenDelta(std::unique_ptr<ByteSource> source, std::string name) : source_(std::move(source)) {
    name_ = std::move(name);
  }

  Status open(const DeltaOptions& options);
  Result<DeltaEnds> ends();
  Status read_rows(const TableDelta& table, const RowSink& fn) const override;
  ByteSource& bytes() const override { return *source_; }
  ByteSource& result_bytes() const override { return *image_; }

 private:
  Status open_file(const DeltaOptions& options, DeltaManifest* manifest);
  Status open_result(const DeltaManifest& manifest);
  Status check_rest() const;
  Status read(const DataSetInfo& info, const ExtentBlocks& blocks,
              const std::function<Status(uint64_t, std::span<const std::byte>)>& fn) const {
    return read_extent(*source_, name_, info, check_, blocks, fn);
  }
  Status read_whole_rows(const TableSpec& spec, const TableDelta& table, const RowSink& fn) const;
  template <class T>
  Result<std::vector<T>> read_all(const DataSetInfo& info, Type type) const;
  template <class T>
  Result<std::vector<T>> read_part(const char* path, Type type) const;

  std::unique_ptr<ByteSource> source_;
  ExtentCheck check_;
  std::vector<DataSetInfo> data_sets_;  // of the delta
  std::unique_ptr<ResultImage> image_;
};

/// Puts the file's name before a message. A message about a place inside the file begins with a path.
Status inside(const std::string& name, Status status) {
  if (status.ok() || status.message().starts_with(name + ":")) return status;
  const bool path = status.message().starts_with('/');
  return Status(status.code(), name + (path ? ":" : ": ") + status.message()).native(status.native_code());
}

Status OpenDelta::open(const DeltaOptions& options) {
  DeltaManifest manifest;
  DPI_RETURN_IF_ERROR(inside(name_, open_file(options, &manifest)));
  DPI_RETURN_IF_ERROR(open_result(manifest));
  const auto numbers = [this](const DataSetInfo& info) { return read_all<int64_t>(info, Type::kI64); };
  auto parts = sort_delta_data(data_sets_, *result_, numbers);
  if (!parts.ok()) return inside(name_, std::move(parts).status());
  tables_ = std::move(parts->tables);
  key_sets_ = std::move(parts->key_sets);
  arrays_ = std::move(parts->arrays);
  return check_rest();
}

Result<DeltaEnds> OpenDelta::ends() {
  DeltaManifest manifest;
  DPI_RETURN_IF_ERROR(inside(name_, open_file({}, &manifest)));
  return DeltaEnds{base_, version_};
}

Status OpenDelta::open_file(const DeltaOptions& options, DeltaManifest* manifest) {
  DPI_ASSIGN_OR_RETURN(const UserBlock block, read_user_block(*source_, FileKind::kDelta));
  DPI_ASSIGN_OR_RETURN(const Metadata metadata, Metadata::read(*source_, block));
  check_ = {options.check_hashes || !options.require_signature.empty(), options.workers};
  if (!options.require_signature.empty())
    DPI_RETURN_IF_ERROR(check_signature(block, options.require_signature));
  if (check_.hashes) DPI_RETURN_IF_ERROR(metadata.check_hash(block));
  DPI_ASSIGN_OR_RETURN(hdf5::File file, hdf5::File::open(metadata, block));
  DPI_ASSIGN_OR_RETURN(Hdf5Contents contents, read_hdf5_profile(file, block));
  const std::string_view text(reinterpret_cast<const char*>(contents.manifest.data()),
                              contents.manifest.size());
  auto read = read_delta_manifest(text, block.minor);
  if (!read.ok()) return std::move(read).status().within("/manifest");
  *manifest = std::move(read).value();
  data_sets_ = std::move(contents.data_sets);
  file_bytes_ = block.file_bytes;
  signatures_ = block.signatures;
  base_ = manifest->base;
  version_ = manifest->version;
  return {};
}

/// The new bundle but for its data, by the reader of bundles.
Status OpenDelta::open_result(const DeltaManifest& manifest) {
  DPI_ASSIGN_OR_RETURN(std::vector<uint8_t> block, read_part<uint8_t>("/new/block", Type::kU8));
  DPI_ASSIGN_OR_RETURN(const std::vector<uint64_t> runs, read_part<uint64_t>("/new/runs", Type::kU64));
  DPI_ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes, read_part<uint8_t>("/new/metadata", Type::kU8));
  auto image = ResultImage::create(std::move(block), runs, bytes);
  if (!image.ok()) return inside(name_, std::move(image).status());
  image_ = std::move(image).value();
  DPI_ASSIGN_OR_RETURN(const ContentHash found, version_of(image_->user_block()));
  if (found != manifest.version)
    return bad_model(name_ + ": gives version " + hex_bytes(found) + ", its manifest says " +
                     hex_bytes(manifest.version));
  BundleOptions options;
  options.check_hashes = true;  // of the metadata: the version stands for it only so
  class Shared final : public ByteSource {
   public:
    explicit Shared(ByteSource& source) : source_(source) { size_ = source.size(); }
    Status read(uint64_t offset, void* dst, size_t n) override { return source_.read(offset, dst, n); }

   private:
    ByteSource& source_;
  };
  DPI_ASSIGN_OR_RETURN(result_,
                       Bundle::open_source(std::make_unique<Shared>(*image_), name_ + " (/new)", options));
  if (result_->manifest().name == manifest.name) return {};
  return bad_model(name_ + ":/manifest: name is " + in_quotes(manifest.name) + ", the new bundle's is " +
                   in_quotes(result_->manifest().name));
}

/// Every byte that nobody has looked at yet: a delta is sound as a whole before any of it is used.
Status OpenDelta::check_rest() const {
  const auto nothing = [](uint64_t, std::span<const std::byte>) { return Status(); };
  for (const TableDelta& t : tables_)
    for (const DataSetInfo* info : {t.rows, t.scale, t.offset})
      if (info != nullptr) DPI_RETURN_IF_ERROR(read(*info, {}, nothing));
  for (const DataSetInfo* info : arrays_) DPI_RETURN_IF_ERROR(read(*info, {}, nothing));
  return {};
}

template <class T>
Result<std::vector<T>> OpenDelta::read_all(const DataSetInfo& info, Type type) const {
  if (info.type != type || info.shape.size() != 1)
    return bad_model(name_ + ":" + info.path + ": is " + shape_text(info.shape) + " " + type_name(info.type) +
                     ", expected one dimension of " + type_name(type));
  std::vector<T> out(static_cast<size_t>(info.extent.length / sizeof(T)));
  const std::span<std::byte> room = std::as_writable_bytes(std::span(out));
  const auto nothing = [](uint64_t, std::span<const std::byte>) { return Status(); };
  DPI_RETURN_IF_ERROR(read(info, {kReadBlockBytes, room}, nothing));
  return out;
}

template <class T>
Result<std::vector<T>> OpenDelta::read_part(const char* path, Type type) const {
  const DataSetInfo* info = find_data_set(data_sets_, path);
  if (info == nullptr) return bad_model(name_ + ":" + path + ": is missing");
  return read_all<T>(*info, type);
}

Status OpenDelta::read_rows(const TableDelta& table, const RowSink& fn) const {
  if (table.rows == nullptr) return {};
  const TableSpec& spec = manifest().tables[table.table];
  if (kernels::row_form(spec.dtype).whole) return read_whole_rows(spec, table, fn);
  std::vector<float> scales;
  if (table.scale != nullptr) {
    DPI_ASSIGN_OR_RETURN(scales, read_all<float>(*table.scale, Type::kF32));
  }
  const uint64_t row_bytes = table.rows->extent.length / static_cast<uint64_t>(table.rows->shape[0]);
  const uint64_t block = std::max<uint64_t>(1, kReadBlockBytes / row_bytes) * row_bytes;
  return read(*table.rows, {block, {}}, [&](uint64_t at, std::span<const std::byte> bytes) {
    const uint64_t first = at / row_bytes, n = bytes.size() / row_bytes;
    return fn(static_cast<int64_t>(first), static_cast<int64_t>(n), bytes,
              scales.empty() ? std::span<const float>() : std::span(scales).subspan(first, n));
  });
}

Status OpenDelta::read_whole_rows(const TableSpec& spec, const TableDelta& table, const RowSink& fn) const {
  const auto begin = [](const DataSetInfo* info) { return info == nullptr ? 0 : info->extent.offset; };
  const RowParts whole(spec.dtype, spec.dim, begin(table.rows), begin(table.scale), begin(table.offset));
  const auto nothing = [](uint64_t, std::span<const std::byte>) { return Status(); };
  for (const DataSetInfo* info : {table.rows, table.scale, table.offset})
    if (info != nullptr) DPI_RETURN_IF_ERROR(read(*info, {}, nothing));  // its digest
  const auto block = std::max<int64_t>(1, static_cast<int64_t>(kReadBlockBytes / whole.row_bytes()));
  std::vector<std::byte> rows;
  for (int64_t first = 0; first < table.set(); first += block) {
    const int64_t n = std::min(block, table.set() - first);
    rows.resize(static_cast<size_t>(n) * whole.row_bytes());
    DPI_RETURN_IF_ERROR(whole.read(
        first, static_cast<size_t>(n), rows.data(),
        [this](uint64_t at, std::byte* to, size_t bytes) { return this->bytes().read(at, to, bytes); }));
    DPI_RETURN_IF_ERROR(fn(first, n, rows, {}));
  }
  return {};
}

}  // namespace

const DataSetInfo* Delta::find_array(const std::string& path) const {
  const auto at = std::lower_bound(arrays_.begin(), arrays_.end(), path,
                                   [](const DataSetInfo* i, const std::string& p) { return i->path < p; });
  return at == arrays_.end() || (*at)->path != path ? nullptr : *at;
}

const TableDelta* Delta::find_table(size_t table) const {
  const auto at = std::lower_bound(tables_.begin(), tables_.end(), table,
                                   [](const TableDelta& t, size_t number) { return t.table < number; });
  return at == tables_.end() || at->table != table ? nullptr : &*at;
}

const KeySetDelta* Delta::find_key_set(size_t key_set) const {
  const auto at = std::lower_bound(key_sets_.begin(), key_sets_.end(), key_set,
                                   [](const KeySetDelta& s, size_t number) { return s.key_set < number; });
  return at == key_sets_.end() || at->key_set != key_set ? nullptr : &*at;
}

Result<DeltaEnds> Delta::read_ends(const std::string& path) try {
  if (!have_content_hash())
    return unsupported(path + ": deltas name bundles by their hashes: this build has no libsodium");
  auto source = ByteSource::open_file(path);
  if (!source.ok()) return std::move(source).status().within(path);
  return OpenDelta(std::move(source).value(), path).ends();
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, path + ": no memory for its metadata");
} catch (const std::exception& e) {
  return internal_error(path + ": " + e.what());
}

Result<std::unique_ptr<Delta>> Delta::open_source(std::unique_ptr<ByteSource> source, const std::string& name,
                                                  const DeltaOptions& options) try {
  if (!have_content_hash())
    return unsupported(name + ": deltas name bundles by their hashes: this build has no libsodium");
  auto delta = std::make_unique<OpenDelta>(std::move(source), name);
  DPI_RETURN_IF_ERROR(delta->open(options));
  return std::unique_ptr<Delta>(std::move(delta));
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, name + ": no memory for its lists of rows");
} catch (const std::exception& e) {
  return internal_error(name + ": " + e.what());
}

Result<std::unique_ptr<Delta>> Delta::open(const std::string& path, const DeltaOptions& options) {
  auto source = ByteSource::open_file(path);
  if (!source.ok()) return std::move(source).status().within(path);
  return open_source(std::move(source).value(), path, options);
}

}  // namespace dpi
