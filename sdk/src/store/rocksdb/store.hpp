// Tables in one RocksDB directory, many of many bundles: a column family of rows per table, a record per
// table (record.hpp), and a marker in the default column family, so that a directory of somebody else's is
// refused.
//
// Reading opens a read-only instance: it takes no lock, writes nothing, starts no thread, and any number of
// processes may do it side by side with one that loads or updates: it sees a table as it was when it was
// opened. Rows lie in one level of files in key order, whose blocks are checked whenever one is read; a
// table's files are counted when it is opened, so lost rows are reported then, and damaged ones when
// they are asked for. Blocks are not compressed (mapped ones are read in place) and there are no bloom
// filters: the host cache remembers absent keys.
#pragma once

#include <rocksdb/db.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/rocksdb/record.hpp"
#include "store/rocksdb/settings.hpp"

namespace dpi::rocks {

class Store {
 public:
  static Result<std::unique_ptr<Store>> open(const dpi_store_options& options, const dpi_store_table* tables,
                                             int32_t n_tables);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // As dpi_store.h has them.
  Status fetch(const dpi_store_fetch& request) const;
  Status write(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n, uint64_t digest);
  Status complete(int32_t table);
  Status drop(int32_t table);
  Result<dpi_store_stat> stat(int32_t table) const;
  Status count(int32_t table, dpi_store_loss* out) const;
  Result<int64_t> begin_update(int32_t table, const dpi_store_table& next, uint64_t id);
  Status update(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n, int64_t done);
  Status end_update(int32_t table);

 private:
  struct Table {
    TableSpec spec;
    Record record;                                // under mutex_
    Updates updates;                              // under mutex_
    rocksdb::ColumnFamilyHandle* rows = nullptr;  // null once dropped
  };

  explicit Store(Settings settings) : settings_(std::move(settings)) {}

  // open.cpp
  Status open_for_reading();
  Status read_tables();
  Status open_for_writing();
  Status find_places();
  Status check_content(const Table& t) const;
  Result<std::vector<std::string>> complete_families(const std::vector<std::string>& names) const;
  Status open_families(bool read_only, const std::vector<std::string>& names,
                       const std::vector<std::string>& whole = {});
  Status check_marker(bool used, bool* set);
  Status read_table(Table* t);
  Status begin_table(Table* t);
  Result<std::vector<std::string>> list_families() const;
  rocksdb::DBOptions db_options(bool read_only) const;
  rocksdb::ColumnFamilyOptions family_options() const;
  rocksdb::ColumnFamilyHandle* family(const std::string& name) const;
  Status record_of(Table* t, bool* found) const;
  Status alias_of(const TableSpec& spec, std::optional<Alias>* alias) const;
  Status count_rows(const Table& t) const;
  std::string place(const TableSpec& spec) const { return settings_.path + ": table '" + spec.name + "'"; }

  // write.cpp
  Status writable(int32_t table, Table** t);
  Status put(Table* t, rocksdb::WriteBatch* batch, const Record& record);
  Status put(Table* t, rocksdb::WriteBatch* batch, const Record& record, const Updates& updates);

  // update.cpp
  Status changing(int32_t table, Table** t);
  Status check_step(const Table& t, const std::string& next, bool* had) const;
  Result<int64_t> settle(Table* t);
  Status drop_aliases(const Table& t);
  Status give_up(Status why);
  static rocksdb::WriteOptions durable();

  Settings settings_;
  bool writes_ = false, updates_ = false;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;  // all that are open, the default one too
  std::vector<Table> tables_;
  mutable std::mutex mutex_;
  bool given_up_ = false;  // under mutex_: a write failed, and what the files hold is known to a new open
};

}  // namespace dpi::rocks
