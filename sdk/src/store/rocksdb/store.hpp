// Tables in one RocksDB directory, many of many bundles: a column family of rows per table, a record per
// table (record.hpp), and a marker in the default column family, so that a directory of somebody else's is
// refused.
//
// Reading opens a read-only instance: it takes no lock, writes nothing, starts no thread, and any number of
// processes may do it side by side with one that loads. Rows lie in one level of files in key order, whose
// blocks are checked whenever one is read; a table's files are counted when it is opened, so rows that are
// lost are told then, and damaged ones when they are asked for. Blocks are not compressed (mapped ones are
// read in place) and there are no bloom filters: the host cache remembers absent keys.
#pragma once

#include <rocksdb/db.h>

#include <memory>
#include <mutex>
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

 private:
  struct Table {
    TableSpec spec;
    Record record;                                // under mutex_
    rocksdb::ColumnFamilyHandle* rows = nullptr;  // null once dropped
  };

  explicit Store(Settings settings) : settings_(std::move(settings)) {}

  // open.cpp
  Status open_for_reading();
  Status read_tables();
  Status open_for_writing();
  Status open_families(bool read_only, const std::vector<std::string>& names);
  Status check_marker(bool used, bool* set);
  Status read_table(Table* t);
  Status begin_table(Table* t);
  Result<std::vector<std::string>> list_families() const;
  rocksdb::DBOptions db_options(bool read_only) const;
  rocksdb::ColumnFamilyOptions family_options() const;
  rocksdb::ColumnFamilyHandle* family(const std::string& name) const;
  Status record_of(const Table& t, Record* record, bool* found) const;
  Status count_rows(const Table& t) const;
  std::string place(const TableSpec& spec) const { return settings_.path + ": table '" + spec.name + "'"; }

  // write.cpp
  Status writable(int32_t table, Table** t);
  Status put(Table* t, rocksdb::WriteBatch* batch, const Record& record);
  Status give_up(Status why);

  Settings settings_;
  bool writes_ = false;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;  // all that are open, the default one too
  std::vector<Table> tables_;
  mutable std::mutex mutex_;
  bool given_up_ = false;  // under mutex_: a write failed, and what the files hold is known to a new open
};

}  // namespace dpi::rocks
