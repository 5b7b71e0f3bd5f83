// The reader of bundle files (weights/FORMAT.md). Opening checks the user block and the digest of everything
// but raw data, then the HDF5 structures and their profile, then the manifest. Raw data is read afterwards,
// block by block, straight to where the caller wants it, its digest checked on the way. HDF5 is read by code
// of this folder (hdf5/): no HDF5 library is linked, and nothing but the file's own bytes decides what
// happens. Digests (XXH3) find damage and are always checked; hashes (BLAKE2b) hold against people and are
// checked where a signature is required.
//
//   DPI_ASSIGN_OR_RETURN(auto bundle, Bundle::open(path));
//   bundle->read_table(3, sink);            // sink(first_row, n_rows, bytes) per block
//
// Who calls it: runtime/model (load), tools (inspect, verify). One Bundle is not thread-safe;
// any number may be open and be opened at once.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "bundle/content_hash.hpp"
#include "bundle/manifest.hpp"

namespace dpi {

class ByteSource;

struct Extent {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t digest = 0;  // XXH3-64
  ContentHash hash{};   // of TreeHash::kData
};

using KeyId = std::array<std::byte, 16>;
struct Signature {
  KeyId key{};
  std::array<std::byte, 64> bytes{};
};

/// One data set of the file: element type, shape, and its extent (length 0 when it has no elements).
struct DataSetInfo {
  enum class Type { kU8, kI8, kU16, kI64, kU64, kF32 };
  std::string path;
  Type type = Type::kU8;
  std::vector<int64_t> shape;
  Extent extent;
};

struct BundleOptions {
  /// Hex Ed25519 public keys, separated by commas, one of which must have signed; empty = none. Implies
  /// check_hashes.
  std::string require_signature;
  /// Compare cryptographic hashes too, not only digests. kUnsupported in a build without libsodium.
  bool check_hashes = false;
  HashWorkers workers{};  // must outlive the bundle
};

/// Rows of one batch as golden rows store them (FORMAT.md part 10).
struct GoldenRows {
  int64_t rows = 0, shared_rows = 0;
  bool has_offsets = false;
  std::vector<float> dense, weights, shared_dense, shared_weights;
  std::vector<int64_t> ids, offsets, shared_offsets, shared_ids, shared_bag_offsets;
  std::vector<float> value, logit;                      // [rows, heads]; logit empty when absent
  std::vector<float> value_tolerance, logit_tolerance;  // of each; empty: the manifest's for all

  /// |score - golden| may be this, relative to max(1, |golden|).
  static double tolerance_at(const std::vector<float>& of_rows, size_t i, double general) {
    return i < of_rows.size() ? static_cast<double>(of_rows[i]) : general;
  }
};

/// Raw cells of the last `rows` golden rows (FORMAT.md part 10): cell `c` of row `r` holds the texts
/// cells[r * columns + c] to the next entry, text `t` the bytes texts[t] to texts[t + 1].
struct GoldenRaw {
  int64_t rows = 0;
  std::vector<std::string> features;  // of the columns
  std::vector<int64_t> cells, texts;
  std::vector<uint8_t> bytes;

  std::string_view text(int64_t t) const {
    const auto* begin = reinterpret_cast<const char*>(bytes.data()) + texts[t];
    return {begin, static_cast<size_t>(texts[t + 1] - texts[t])};
  }
};

/// Extents are read, hashed and handed on in blocks of at most this (a table's row, if that is larger).
inline constexpr size_t kReadBlockBytes = size_t{4} << 20;

class Bundle {
 public:
  static Result<std::unique_ptr<Bundle>> open(const std::string& path, const BundleOptions& options = {});
  /// The bytes must stay valid while the Bundle lives.
  static Result<std::unique_ptr<Bundle>> open_memory(std::span<const std::byte> bytes,
                                                     const BundleOptions& options = {});
  /// Opens bytes from elsewhere; `name` is for messages.
  static Result<std::unique_ptr<Bundle>> open_source(std::unique_ptr<ByteSource> source,
                                                     const std::string& name, const BundleOptions& options);
  virtual ~Bundle() = default;

  const Manifest& manifest() const { return manifest_; }
  const std::string& name() const { return name_; }  // the path, or "<memory>"
  uint64_t file_bytes() const { return file_bytes_; }
  uint64_t content_digest() const {
    return content_digest_;
  }  // XXH3 over the user block: changes with any byte of the bundle
  /// A hash of everything in the bundle but its signatures: what deltas name it by (FORMAT.md part 1). Zeros
  /// in a build without libsodium. Stands for the data once that was read with hashes.
  const ContentHash& content_hash() const { return content_hash_; }
  const std::vector<Signature>& signatures() const { return signatures_; }  // as found: nobody checked them
  bool hashes_checked() const { return check_hashes_; }
  const std::vector<DataSetInfo>& data_sets() const { return data_sets_; }
  const DataSetInfo* find(const std::string& path) const;
  /// The file, for whoever reads rows of it while a model serves; null where it is no file of this bundle's
  /// own. Extents say where; what is read so was checked by read_table only.
  virtual std::shared_ptr<ByteSource> file() const { return nullptr; }
  /// The bytes, wherever they are, as long as the Bundle lives. Unchecked, like file().
  virtual ByteSource& bytes() const = 0;

  /// Blocks of whole rows of table `index` in order: fn(first_row, n_rows, bytes) -> Status. At most ~4 MiB
  /// per block. Rows of a type of RowForm::whole come with their scale and offset behind the elements.
  using BlockSink =
      std::function<Status(int64_t first_row, int64_t n_rows, std::span<const std::byte> bytes)>;
  virtual Status read_table(size_t index, const BlockSink& fn) = 0;
  /// The same, and a bundle that can puts the rows into `into`, one behind another, before `fn` sees them
  /// there. Too short for all rows: as read_table.
  virtual Status read_table_into(size_t index, std::span<std::byte> /*into*/, const BlockSink& fn) {
    return read_table(index, fn);
  }
  virtual Status read_table_scale(size_t index, std::vector<float>* out) = 0;  // of i8
  /// Blocks of the keys of key set `index` in order: fn(number of the first, keys) -> Status. Keys rise, each
  /// once: what does not is kBadModel, the key named.
  using KeySink = std::function<Status(int64_t first, std::span<const int64_t> keys)>;
  virtual Status read_keys(size_t index, const KeySink& fn) = 0;
  /// A parameter by its name under /params; shape from find("/params/" + name).
  virtual Result<std::vector<float>> read_param(const std::string& name) = 0;
  virtual Result<std::vector<int64_t>> read_i64(const std::string& path) = 0;
  virtual Result<std::vector<uint64_t>> read_u64(const std::string& path) = 0;
  virtual Result<std::vector<uint8_t>> read_u8(const std::string& path) = 0;
  virtual Result<GoldenRows> read_golden() = 0;
  /// No rows when the bundle has none.
  virtual Result<GoldenRaw> read_golden_raw() = 0;
  /// Reads and checks every extent; progress(done, total bytes) may be empty.
  virtual Status verify_all(const std::function<void(uint64_t, uint64_t)>& progress) = 0;
  /// Bytes of the extents that nobody has read to their end, and so nobody has checked.
  virtual uint64_t unread_bytes() const = 0;
  /// Reads and checks those; `fn` hears of each block's bytes and may end it.
  virtual Status verify_rest(const std::function<Status(uint64_t bytes)>& fn) = 0;

 protected:
  Manifest manifest_;
  std::string name_;
  uint64_t file_bytes_ = 0;
  uint64_t content_digest_ = 0;
  ContentHash content_hash_{};
  bool check_hashes_ = false;
  std::vector<Signature> signatures_;
  std::vector<DataSetInfo> data_sets_;
};

}  // namespace dpi
