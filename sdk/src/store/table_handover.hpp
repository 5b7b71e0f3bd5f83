// How tables go from the store of one version of a model to the store of the next: rows that did not change
// are taken over or copied, and only the others are read. Models that hold the same rows share them the same
// way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.hpp"

namespace dpi {

class RowVersion;
struct MovedRow;
struct SharedBlock;

/// Rows of a table in a store's memory, which stays as long as this does.
struct HeldRows {
  std::shared_ptr<void> memory;  // null: nothing is held, or nobody else may have it
  uint64_t bytes = 0;            // of the memory, with other tables that lie there; 0: it is the host tier
  const std::byte* rows =
      nullptr;  // where the device reads them; null: only the memory as a whole is available
  const std::byte* scale = nullptr;
  int64_t stride = 0;
  int64_t count = 0;
  int64_t row_bytes = 0;
  std::string content;                     // StoreTable::content
  std::string terms;                       // StoreTable::terms
  std::shared_ptr<RowVersion> version;     // which of the rows lie in spare rows; null = none can
  std::shared_ptr<SharedBlock> as_loaded;  // table_blocks.hpp; null: some do, or did
};

/// How many models read the rows of a table.
struct TableShare {
  int64_t models = 0;  // that hold its rows now; 0 = it is this model's alone, whatever others load
};

/// The base hands nothing over. Tables are numbered as in TableStore::plan, which comes first.
class TableHandover {
 public:
  virtual ~TableHandover() = default;

  // While loading.
  /// True: the rows are here already (StoreTable::same), none is to be ingested.
  virtual bool has_rows(int32_t /*table*/) const { return false; }
  /// True if rows of StoreTable::before can be read.
  virtual bool has_before(int32_t /*table*/) const { return false; }
  /// Ingests rows [from, from + n_rows) of StoreTable::before, as TableStore::ingest does.
  virtual Status ingest_before(int32_t /*table*/, int64_t /*first_row*/, int64_t /*n_rows*/,
                               int64_t /*from*/) {
    return internal_error("this store has no rows of before");
  }
  /// Reads those rows, unpadded.
  virtual Status read_before(int32_t /*table*/, int64_t /*from*/, int64_t /*n_rows*/, std::byte* /*rows*/) {
    return internal_error("this store has no rows of before");
  }
  /// Rows that are to be put into a table that came with a version; nothing else of it is.
  virtual std::span<const MovedRow> spare_rows(int32_t /*table*/) const { return {}; }
  /// Puts them, in their order.
  virtual Status put_spare(int32_t /*table*/, std::span<const std::byte> /*rows*/,
                           std::span<const float> /*scales*/) {
    return internal_error("this store has no spare rows");
  }

  // After seal.
  /// How the row group has its rows; null = all at home, for good.
  virtual std::shared_ptr<RowVersion> row_version(int32_t /*group*/) const { return {}; }
  /// Where a table's rows lie.
  virtual HeldRows holds(int32_t /*table*/) const { return {}; }
  virtual TableShare share(int32_t /*table*/) const { return {}; }
};

/// Hands over what another does.
class ForwardingHandover : public TableHandover {
 public:
  /// `inner` outlives this.
  explicit ForwardingHandover(TableHandover& inner) : inner_(inner) {}
  bool has_rows(int32_t table) const override { return inner_.has_rows(table); }
  bool has_before(int32_t table) const override { return inner_.has_before(table); }
  Status ingest_before(int32_t table, int64_t first_row, int64_t n_rows, int64_t from) override {
    return inner_.ingest_before(table, first_row, n_rows, from);
  }
  Status read_before(int32_t table, int64_t from, int64_t n_rows, std::byte* rows) override {
    return inner_.read_before(table, from, n_rows, rows);
  }
  std::span<const MovedRow> spare_rows(int32_t table) const override { return inner_.spare_rows(table); }
  Status put_spare(int32_t table, std::span<const std::byte> rows, std::span<const float> scales) override {
    return inner_.put_spare(table, rows, scales);
  }
  std::shared_ptr<RowVersion> row_version(int32_t group) const override { return inner_.row_version(group); }
  HeldRows holds(int32_t table) const override { return inner_.holds(table); }
  TableShare share(int32_t table) const override { return inner_.share(table); }

 protected:
  TableHandover& inner() const { return inner_; }

 private:
  TableHandover& inner_;
};

}  // namespace dpi
