// The tier below for tables whose rows lie in the bundle file: a row is read where the file has it (pread),
// so a table larger than memory needs no copy of its own. The file stays open: it may be replaced by another
// of its name, but not written to: each fetch looks at its size and time of change once it has its rows, and
// refuses them. Rows of external tables come from another source.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <dpi/kernels/tensor.hpp>

#include "bundle/byte_source.hpp"
#include "store/tiered/row_source.hpp"

namespace dpi {

/// Where a table's rows lie. A row that is handed on has `dtype`: f32 in the file may become f16 or bf16; of
/// i8 its scale follows (tiered::scale_at), and rows of RowForm::whole are whole.
struct BundleTable {
  std::string name;
  int64_t rows = 0;
  int32_t dim = 0;
  kernels::DType in_file = kernels::DType::kF32;
  kernels::DType dtype = kernels::DType::kF32;
  uint64_t offset = 0;
  uint64_t scale_offset = 0;  // where the type has scales and offsets
  uint64_t offsets_at = 0;
  int32_t elsewhere = -1;  // its number in the source of rows that the bundle has not

  /// Of a table of raw keys elsewhere, whose ids number a request's keys: the ids from `absent` on, which do
  /// not. `absent` is the default row; behind it pads[i] is the key whose row pads, nothing = the default
  /// row.
  struct Keyed {
    int32_t absent = 0;
    std::vector<std::optional<int64_t>> pads;
    std::vector<double> default_row;  // empty = zeros

    /// The key that such an id means, nothing = the default row.
    std::optional<int64_t> key_of(int64_t id) const {
      return id > absent ? pads[static_cast<size_t>(id - absent - 1)] : std::nullopt;
    }
  };
  std::optional<Keyed> keyed = std::nullopt;
};

/// kUnsupported names the first column of a row that 16 bits cannot hold, and what to load with instead.
Status check_narrow(std::span<const float> row, kernels::DType type);

class BundleRows final : public tiered::RowSource {
 public:
  /// The file must have been checked: rows are taken as they are read.
  /// elsewhere: of external tables, null when there is none.
  BundleRows(std::shared_ptr<ByteSource> file, std::string file_name, std::vector<BundleTable> tables,
             std::unique_ptr<tiered::RowSource> elsewhere = nullptr);

  const BundleTable& table(int32_t t) const { return tables_[static_cast<size_t>(t)].spec; }
  /// Rows behind those of the file, as they are handed on. While loading only.
  void add_rows(int32_t table, std::span<const std::byte> rows);
  /// The first of the rows [first, first + n) that are other ones here than in `rows`, which has them whole,
  /// as they are handed on; -1: none is. Of tables whose rows lie in the file, or behind those.
  Result<int64_t> first_other(int32_t table, int64_t first, int64_t n, std::span<const std::byte> rows) const;
  /// Keys are row numbers; others are absent. A row elsewhere that holds what its narrower type does not is
  /// kUnsupported: rows of the file were looked at while they were loaded. The deadline is looked at between
  /// rows. While one row is waited for, the disk is asked for those behind it.
  Status fetch(const tiered::FetchRequest& request) override;
  /// Rows that the page cache has. Ends, too, when it lacks so many that the disk has enough to do.
  void fetch_ready(const tiered::FetchRequest& request) override;
  int64_t sequence(int32_t table) override;
  /// "bundle" where rows lie in the file, then those of external tables.
  std::vector<StoreName> stores() const override;
  int32_t store_of(int32_t table) const override;
  std::vector<StoreNode> nodes(int32_t store) override;
  int32_t route(int32_t table, int64_t key) override;

 private:
  struct Table {
    BundleTable spec;
    int64_t row_bytes = 0;          // as handed on
    std::vector<std::byte> behind;  // rows
  };
  /// Of a row of the file. cached: what was read needed no waiting, else true stays false; null = wait.
  Status read_row(const Table& t, int64_t row, std::byte* to, bool* cached) const;
  Status read(const Table& t, int64_t row, uint64_t at, void* to, size_t n, bool* cached) const;
  Status read_rows(const Table& t, int64_t first, size_t n, std::byte* to) const;
  Status read_whole(const Table& t, int64_t first, size_t n, std::byte* to, bool* cached) const;
  bool has(const Table& t, int64_t row) const;
  Status fetch_narrow(const Table& t, const tiered::FetchRequest& request);
  bool try_row(const tiered::FetchRequest& request, size_t i) const;
  int32_t stores_here() const;

  std::shared_ptr<ByteSource> file_;
  std::string file_name_;
  std::vector<Table> tables_;
  std::unique_ptr<tiered::RowSource> elsewhere_;
};

}  // namespace dpi
