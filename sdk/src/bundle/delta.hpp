// The reader of deltas (weights/DELTA.md): what changed between two versions of one model. Opening validates
// the file whole: user block, HDF5 profile, manifest, the new bundle's own metadata, every list of rows and
// keys, the digest of every byte. What only the base can tell is checked when the two meet (patch.hpp).
//
//   DPI_ASSIGN_OR_RETURN(auto delta, Delta::open("v7.delta"));
//   for (const TableDelta& t : delta->tables()) delta->read_rows(t, sink);  // sink(first, n, rows, scales)
//
// Who calls it: `dpi delta`, and whoever changes a model that runs. One Delta may be read by any number of
// threads where its source can.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "bundle/byte_source.hpp"

namespace dpi {

/// Rows of one table that the new version has otherwise than the base.
struct TableDelta {
  size_t table = 0;  // of manifest().tables
  bool all = false;  // every row is set, in order; `at` is empty
  /// The rows that are set: row numbers, or keys of a keyed table; rising, each once. Values may be
  /// unchanged.
  std::vector<int64_t> at;
  bool default_row = false;  // keyed, not `all`: behind the rows of `at` comes the default row
  /// Row numbers whose rows are gone: all their bits are 0 now. Rising, none in `at`. Of a keyed table keys
  /// go with their set.
  std::vector<int64_t> gone;
  const DataSetInfo* rows = nullptr;    // [set, dim]; null = none are set
  const DataSetInfo* scale = nullptr;   // [set], where the type has scales (RowForm)
  const DataSetInfo* offset = nullptr;  // the same of offsets

  int64_t set() const { return rows == nullptr ? 0 : rows->shape[0]; }
};

/// Keys that the new version of a set has more, and those that it has no longer. Both rise, and share none.
struct KeySetDelta {
  size_t key_set = 0;  // of manifest().key_sets
  std::vector<int64_t> added, gone;
  const DataSetInfo* added_data = nullptr;  // null = none
};

struct DeltaOptions {
  std::string require_signature;  // as in BundleOptions
  bool check_hashes = false;      // cryptographic ones of the delta's own data
  HashWorkers workers{};          // must outlive the delta
};

/// The versions that a delta leads from and to.
struct DeltaEnds {
  ContentHash base{}, version{};
};

class Delta {
 public:
  /// Read from the head of the file: that is checked, the data is not looked at.
  static Result<DeltaEnds> read_ends(const std::string& path);
  /// kBadModel names the place that is wrong; kUnsupported: another format, an unknown key, or a build
  /// without libsodium.
  static Result<std::unique_ptr<Delta>> open(const std::string& path, const DeltaOptions& options = {});
  /// Opens bytes from elsewhere; `name` is for messages.
  static Result<std::unique_ptr<Delta>> open_source(std::unique_ptr<ByteSource> source,
                                                    const std::string& name, const DeltaOptions& options);
  virtual ~Delta() = default;

  const std::string& name() const { return name_; }
  uint64_t file_bytes() const { return file_bytes_; }
  const std::vector<Signature>& signatures() const { return signatures_; }  // as found: nobody checked them

  const ContentHash& base() const { return base_; }        // the version it starts from
  const ContentHash& version() const { return version_; }  // the version it gives
  /// The new bundle without its data: user block, data sets with their extents, manifest; all checked as a
  /// bundle's.
  const Bundle& result() const { return *result_; }
  const Manifest& manifest() const { return result_->manifest(); }

  const std::vector<TableDelta>& tables() const { return tables_; }  // by rising number, of those that change
  const std::vector<KeySetDelta>& key_sets() const { return key_sets_; }  // the same
  /// Data sets of /params and /golden and a hot-key list that are here whole, and of /encoders the elements
  /// behind the base's; sorted by path.
  const std::vector<const DataSetInfo*>& arrays() const { return arrays_; }
  const DataSetInfo* find_array(const std::string& path) const;
  /// The changes of one table or key set; null = none.
  const TableDelta* find_table(size_t table) const;
  const KeySetDelta* find_key_set(size_t key_set) const;

  /// Blocks of the rows that are set, in the order of `at`: fn(first, n, their bytes, scales (none unless
  /// kI8)). Rows are as Bundle::read_table has them. Digests are checked again: do not use what came when
  /// this fails.
  using RowSink = std::function<Status(int64_t first, int64_t n, std::span<const std::byte> rows,
                                       std::span<const float> scales)>;
  virtual Status read_rows(const TableDelta& table, const RowSink& fn) const = 0;
  /// The bytes of the file. Where a data set of `rows`, `scale` or arrays() lies, its extent says.
  virtual ByteSource& bytes() const = 0;
  /// The new bundle's bytes as far as they are no data: user block and what lies between the extents.
  virtual ByteSource& result_bytes() const = 0;

 protected:
  std::string name_;
  uint64_t file_bytes_ = 0;
  ContentHash base_{}, version_{};
  std::vector<Signature> signatures_;
  std::unique_ptr<Bundle> result_;
  std::vector<TableDelta> tables_;
  std::vector<KeySetDelta> key_sets_;
  std::vector<const DataSetInfo*> arrays_;
};

}  // namespace dpi
