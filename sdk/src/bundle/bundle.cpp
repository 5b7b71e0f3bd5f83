#include "bundle/bundle.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>

#include "base/text.hpp"
#include "bundle/byte_source.hpp"
#include "bundle/extent_reader.hpp"
#include "bundle/hdf5_profile.hpp"
#include "bundle/manifest_read.hpp"
#include "bundle/metadata.hpp"
#include "bundle/row_parts.hpp"
#include "bundle/signature.hpp"
#include "bundle/user_block.hpp"

namespace dpi {
namespace {

using Type = DataSetInfo::Type;

class OpenBundle final : public Bundle {
 public:
  OpenBundle(std::unique_ptr<ByteSource> source, std::string name) : source_(std::move(source)) {
    name_ = std::move(name);
  }

  Status open(const BundleOptions& options);
  Status read_table(size_t index, const BlockSink& fn) override { return read_table_into(index, {}, fn); }
  Status read_table_into(size_t index, std::span<std::byte> into, const BlockSink& fn) override;
  Status read_table_scale(size_t index, std::vector<float>* out) override;
  Status read_keys(size_t index, const KeySink& fn) override;
  Result<std::vector<float>> read_param(const std::string& name) override {
    return read_all<float>("/params/" + name, Type::kF32);
  }
  Result<std::vector<int64_t>> read_i64(const std::string& path) override {
    return read_all<int64_t>(path, Type::kI64);
  }
  Result<std::vector<uint64_t>> read_u64(const std::string& path) override {
    return read_all<uint64_t>(path, Type::kU64);
  }
  Result<std::vector<uint8_t>> read_u8(const std::string& path) override {
    return read_all<uint8_t>(path, Type::kU8);
  }
  Result<GoldenRows> read_golden() override;
  Result<GoldenRaw> read_golden_raw() override;
  Status verify_all(const std::function<void(uint64_t, uint64_t)>& progress) override;
  uint64_t unread_bytes() const override;
  Status verify_rest(const std::function<Status(uint64_t bytes)>& fn) override;
  std::shared_ptr<ByteSource> file() const override { return source_->stays() ? source_ : nullptr; }
  ByteSource& bytes() const override { return *source_; }

 private:
  using ChunkSink = std::function<Status(uint64_t at, std::span<const std::byte>)>;
  Status read_extent(const DataSetInfo& info, const ExtentBlocks& blocks, const ChunkSink& fn);
  Status fault(const std::string& path, const std::string& text) const {
    return bad_model(name_ + ":" + path + ": " + text);
  }

  Status read_whole_rows(const TableSpec& t, const DataSetInfo& info, std::span<std::byte> into,
                         const BlockSink& fn);
  Result<std::vector<std::byte>> read_bytes(const std::string& path);
  template <class T>
  Result<std::vector<T>> read_all(const std::string& path, Type type);
  template <class T>
  Status read_optional(const std::string& path, Type type, std::vector<T>* out);

  std::shared_ptr<ByteSource> source_;
  HashWorkers workers_;
  std::vector<bool> checked_;  // by data set: read to its end and found sound
};

Status OpenBundle::open(const BundleOptions& options) {
  DPI_ASSIGN_OR_RETURN(const UserBlock block, read_user_block(*source_));
  DPI_ASSIGN_OR_RETURN(const Metadata metadata, Metadata::read(*source_, block));
  check_hashes_ = options.check_hashes || !options.require_signature.empty();
  workers_ = options.workers;
  if (!options.require_signature.empty())
    DPI_RETURN_IF_ERROR(check_signature(block, options.require_signature));
  if (check_hashes_) DPI_RETURN_IF_ERROR(metadata.check_hash(block));
  DPI_ASSIGN_OR_RETURN(hdf5::File file, hdf5::File::open(metadata, block));
  DPI_ASSIGN_OR_RETURN(Hdf5Contents contents, read_hdf5_profile(file, block));
  const std::string_view text(reinterpret_cast<const char*>(contents.manifest.data()),
                              contents.manifest.size());
  auto manifest = read_manifest(text, block.minor);
  if (!manifest.ok()) return std::move(manifest).status().within("/manifest");
  manifest_ = std::move(manifest).value();
  DPI_RETURN_IF_ERROR(check_data_sets(manifest_, contents.data_sets));
  data_sets_ = std::move(contents.data_sets);
  checked_.assign(data_sets_.size(), false);
  file_bytes_ = block.file_bytes;
  content_digest_ = block.self_digest;
  if (have_content_hash()) {
    DPI_ASSIGN_OR_RETURN(content_hash_, version_of(block));
  }
  signatures_ = block.signatures;
  return {};
}

Status OpenBundle::read_extent(const DataSetInfo& info, const ExtentBlocks& blocks, const ChunkSink& fn) {
  DPI_RETURN_IF_ERROR(dpi::read_extent(*source_, name_, info, {check_hashes_, workers_}, blocks, fn));
  if (info.extent.length > 0) checked_[static_cast<size_t>(&info - data_sets_.data())] = true;
  return {};
}

template <class T>
Result<std::vector<T>> OpenBundle::read_all(const std::string& path, Type type) {
  const DataSetInfo* info = find(path);
  if (info == nullptr) return fault(path, "is missing");
  if (info->type != type)
    return fault(path, std::string("is ") + type_name(info->type) + ", expected " + type_name(type));
  std::vector<T> out(static_cast<size_t>(info->extent.length / sizeof(T)));
  const std::span<std::byte> room = std::as_writable_bytes(std::span(out));
  const auto nothing = [](uint64_t, std::span<const std::byte>) { return Status(); };
  DPI_RETURN_IF_ERROR(read_extent(*info, {kReadBlockBytes, room}, nothing));
  return out;
}

template <class T>
Status OpenBundle::read_optional(const std::string& path, Type type, std::vector<T>* out) {
  if (find(path) == nullptr) return {};
  DPI_ASSIGN_OR_RETURN(*out, read_all<T>(path, type));
  return {};
}

Status OpenBundle::read_table_into(size_t index, std::span<std::byte> into, const BlockSink& fn) {
  if (index >= manifest_.tables.size())
    return internal_error("table " + std::to_string(index) + " does not exist");
  const TableSpec& t = manifest_.tables[index];
  const DataSetInfo* info = find(t.data);
  if (info == nullptr) return fault(t.data, "is missing");
  if (kernels::row_form(t.dtype).whole) return read_whole_rows(t, *info, into, fn);
  const auto row_bytes = static_cast<size_t>(kernels::row_bytes_of(t.dtype, t.dim));
  const size_t rows = std::max<size_t>(1, kReadBlockBytes / row_bytes);
  const auto take = [&](uint64_t at, std::span<const std::byte> bytes) {
    return fn(static_cast<int64_t>(at / row_bytes), static_cast<int64_t>(bytes.size() / row_bytes), bytes);
  };
  return read_extent(*info, {rows * row_bytes, into}, take);
}

/// Scales and offsets first, then the elements block by block.
Status OpenBundle::read_whole_rows(const TableSpec& t, const DataSetInfo& info, std::span<std::byte> into,
                                   const BlockSink& fn) {
  const RowParts whole(t.dtype, t.dim, 0, 0, 0);
  const auto& [elements, scale, offset] = whole.parts();
  const std::string* const paths[] = {&t.scale, &t.offset};
  const RowParts::Part parts[] = {scale, offset};
  std::vector<std::byte> scalars[2];
  for (size_t i = 0; i < 2; ++i) {
    if (parts[i].bytes == 0) continue;
    DPI_ASSIGN_OR_RETURN(scalars[i], read_bytes(*paths[i]));
  }
  const size_t rows = std::max<size_t>(1, kReadBlockBytes / whole.row_bytes());
  const bool fits = into.size() >= static_cast<size_t>(t.rows) * whole.row_bytes();
  std::vector<std::byte> own(fits ? 0 : std::min(rows, static_cast<size_t>(t.rows)) * whole.row_bytes());
  return read_extent(info, {rows * elements.bytes, {}}, [&](uint64_t at, std::span<const std::byte> bytes) {
    const size_t first = at / elements.bytes, n = bytes.size() / elements.bytes;
    std::byte* const to = fits ? into.data() + first * whole.row_bytes() : own.data();
    whole.put(elements, n, bytes.data(), to);
    for (size_t i = 0; i < 2; ++i)
      if (parts[i].bytes > 0) whole.put(parts[i], n, scalars[i].data() + first * parts[i].bytes, to);
    return fn(static_cast<int64_t>(first), static_cast<int64_t>(n), {to, n * whole.row_bytes()});
  });
}

Result<std::vector<std::byte>> OpenBundle::read_bytes(const std::string& path) {
  const DataSetInfo* info = find(path);
  if (info == nullptr) return fault(path, "is missing");
  std::vector<std::byte> out(info->extent.length);
  const auto nothing = [](uint64_t, std::span<const std::byte>) { return Status(); };
  DPI_RETURN_IF_ERROR(read_extent(*info, {kReadBlockBytes, out}, nothing));
  return out;
}

Status OpenBundle::read_table_scale(size_t index, std::vector<float>* out) {
  if (index >= manifest_.tables.size())
    return internal_error("table " + std::to_string(index) + " does not exist");
  DPI_ASSIGN_OR_RETURN(*out, read_all<float>(manifest_.tables[index].scale, Type::kF32));
  return {};
}

/// The first key of a block that does not rise above the one before, as text; empty = all do.
std::string wrong_key(std::span<const int64_t> keys, int64_t first, std::optional<int64_t> before) {
  for (size_t k = 0; k < keys.size(); before = keys[k++]) {
    if (!before || keys[k] > *before) continue;
    const std::string key =
        "key " + std::to_string(keys[k]) + " at " + std::to_string(first + static_cast<int64_t>(k));
    return keys[k] == *before ? key + " is there twice"
                              : key + " comes after " + std::to_string(*before) + ", expected rising keys";
  }
  return {};
}

Status OpenBundle::read_keys(size_t index, const KeySink& fn) {
  if (index >= manifest_.key_sets.size() || manifest_.key_sets[index].external())
    return internal_error("key set " + std::to_string(index) + " has no keys here");
  const std::string& path = manifest_.key_sets[index].data;
  const DataSetInfo* info = find(path);
  if (info == nullptr) return fault(path, "is missing");
  std::optional<int64_t> last;
  return read_extent(*info, {}, [&](uint64_t at, std::span<const std::byte> bytes) -> Status {
    // A block begins where the buffer does, which is aligned for any type.
    const std::span keys(reinterpret_cast<const int64_t*>(bytes.data()), bytes.size() / sizeof(int64_t));
    const auto first = static_cast<int64_t>(at / sizeof(int64_t));
    const std::string wrong = wrong_key(keys, first, last);
    if (!wrong.empty()) return fault(path, wrong);
    last = keys.back();
    return fn(first, keys);
  });
}

Result<GoldenRows> OpenBundle::read_golden() {
  GoldenRows g;
  g.rows = manifest_.golden.rows;
  g.shared_rows = manifest_.golden.shared_rows;
  if (g.rows == 0) return g;
  DPI_RETURN_IF_ERROR(read_optional("/golden/dense", Type::kF32, &g.dense));
  DPI_RETURN_IF_ERROR(read_optional("/golden/ids", Type::kI64, &g.ids));
  DPI_RETURN_IF_ERROR(read_optional("/golden/offsets", Type::kI64, &g.offsets));
  DPI_RETURN_IF_ERROR(read_optional("/golden/weights", Type::kF32, &g.weights));
  DPI_RETURN_IF_ERROR(read_optional("/golden/shared_offsets", Type::kI64, &g.shared_offsets));
  DPI_RETURN_IF_ERROR(read_optional("/golden/shared_dense", Type::kF32, &g.shared_dense));
  DPI_RETURN_IF_ERROR(read_optional("/golden/shared_ids", Type::kI64, &g.shared_ids));
  DPI_RETURN_IF_ERROR(read_optional("/golden/shared_bag_offsets", Type::kI64, &g.shared_bag_offsets));
  DPI_RETURN_IF_ERROR(read_optional("/golden/shared_weights", Type::kF32, &g.shared_weights));
  DPI_RETURN_IF_ERROR(read_optional("/golden/value", Type::kF32, &g.value));
  DPI_RETURN_IF_ERROR(read_optional("/golden/logit", Type::kF32, &g.logit));
  DPI_RETURN_IF_ERROR(read_optional("/golden/value_tolerance", Type::kF32, &g.value_tolerance));
  DPI_RETURN_IF_ERROR(read_optional("/golden/logit_tolerance", Type::kF32, &g.logit_tolerance));
  g.has_offsets = !g.offsets.empty();
  return g;
}

Result<GoldenRaw> OpenBundle::read_golden_raw() {
  GoldenRaw raw;
  if (manifest_.golden.raw.empty()) return raw;
  raw.rows = manifest_.golden.raw_rows;
  raw.features = manifest_.golden.raw;
  DPI_ASSIGN_OR_RETURN(raw.cells, read_all<int64_t>("/golden/raw_cells", Type::kI64));
  DPI_ASSIGN_OR_RETURN(raw.texts, read_all<int64_t>("/golden/raw_texts", Type::kI64));
  DPI_ASSIGN_OR_RETURN(raw.bytes, read_all<uint8_t>("/golden/raw_bytes", Type::kU8));
  const auto covers = [](const std::vector<int64_t>& offsets, size_t n) {
    return !offsets.empty() && offsets.front() == 0 && static_cast<size_t>(offsets.back()) == n &&
           std::is_sorted(offsets.begin(), offsets.end());
  };
  if (!covers(raw.texts, raw.bytes.size())) {
    return fault("/golden/raw_texts",
                 "expected rising offsets from 0 to " + std::to_string(raw.bytes.size()));
  }
  if (!covers(raw.cells, raw.texts.size() - 1)) {
    return fault("/golden/raw_cells",
                 "expected rising offsets from 0 to " + std::to_string(raw.texts.size() - 1));
  }
  return raw;
}

Status OpenBundle::verify_all(const std::function<void(uint64_t, uint64_t)>& progress) {
  uint64_t total = 0, done = 0;
  for (const DataSetInfo& info : data_sets_) total += info.extent.length;
  for (const DataSetInfo& info : data_sets_) {
    DPI_RETURN_IF_ERROR(read_extent(info, {}, [&](uint64_t, std::span<const std::byte> bytes) -> Status {
      done += bytes.size();
      if (progress) progress(done, total);
      return {};
    }));
  }
  return {};
}

uint64_t OpenBundle::unread_bytes() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < data_sets_.size(); ++i)
    if (!checked_[i]) bytes += data_sets_[i].extent.length;
  return bytes;
}

Status OpenBundle::verify_rest(const std::function<Status(uint64_t bytes)>& fn) {
  for (size_t i = 0; i < data_sets_.size(); ++i) {
    if (checked_[i]) continue;
    DPI_RETURN_IF_ERROR(read_extent(
        data_sets_[i], {}, [&](uint64_t, std::span<const std::byte> bytes) { return fn(bytes.size()); }));
  }
  return {};
}

}  // namespace

const DataSetInfo* Bundle::find(const std::string& path) const { return find_data_set(data_sets_, path); }

Result<std::unique_ptr<Bundle>> Bundle::open_source(std::unique_ptr<ByteSource> source,
                                                    const std::string& name,
                                                    const BundleOptions& options) try {
  auto bundle = std::make_unique<OpenBundle>(std::move(source), name);
  Status opened = bundle->open(options);
  if (opened.ok()) return std::unique_ptr<Bundle>(std::move(bundle));
  // "a.h5:/tables/x: ..." for a place inside the file, "a.h5: ..." for the file itself
  const bool inside = opened.message().starts_with('/');
  return Status(opened.code(), name + (inside ? ":" : ": ") + opened.message()).native(opened.native_code());
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, name + ": no memory for its metadata");
} catch (const std::exception& e) {
  return internal_error(name + ": " + e.what());
}

Result<std::unique_ptr<Bundle>> Bundle::open(const std::string& path, const BundleOptions& options) {
  auto source = ByteSource::open_file(path);
  if (!source.ok()) return std::move(source).status().within(path);
  return open_source(std::move(source).value(), path, options);
}

Result<std::unique_ptr<Bundle>> Bundle::open_memory(std::span<const std::byte> bytes,
                                                    const BundleOptions& options) {
  return open_source(ByteSource::over_memory(bytes), "<memory>", options);
}

}  // namespace dpi
