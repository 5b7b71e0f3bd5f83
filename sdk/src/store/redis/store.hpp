// What the plugin's functions do, without the C boundary (plugin.cpp): tables in Redis that are read or
// written.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "store/abi/dpi_store.h"
#include "store/redis/cluster.hpp"
#include "store/redis/exchange.hpp"
#include "store/redis/table.hpp"

namespace dpi::redis {

/// What to do about a table that has become another content.
extern const char kUpdatedHint[];

class Store {
 public:
  static Result<std::unique_ptr<Store>> open(const dpi_store_options& options, const dpi_store_table* tables,
                                             int32_t n_tables);

  Status fetch(const dpi_store_fetch& request);  // fetch.cpp
  Status write(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n, uint64_t digest);
  Status complete(int32_t table);
  Status stat(int32_t table, dpi_store_stat* out);
  Status drop(int32_t table);

  // update.cpp
  Status begin_update(int32_t table, const dpi_store_table& next, uint64_t id, int64_t* done);
  Status update(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n, int64_t done);
  Status end_update(int32_t table);

 private:
  /// Of a table that this handle changes.
  struct Update {
    Table next;
    int64_t fence = 0, sequence = 0;
  };

  Store(Settings settings, bool writes);

  Status check_for_reading(Table& t);
  Status check_now(Table& t, const TableRecord& record);
  Status updated_since(const Table& t, int64_t key, int64_t sequence);
  Result<Table*> to_write(int32_t table);
  Result<TableRecord> record_of(const Table& t, bool patient);
  /// The record at the table's place, which is found where it has become this content by updates.
  Result<TableRecord> find_record(Table& t, bool patient);
  /// All rows that Redis has, or an error that says which partition lacks its seal, or the last update.
  Result<int64_t> count_rows(const Table& t, bool sealed, int64_t sequence, bool patient);
  Status begin(Table& t, TableRecord* record);
  Status write_block(const Table& t, const int64_t* keys, const unsigned char* rows, int64_t n);
  /// One command for each partition, in steps.
  Status each_partition(const Table& t, const std::function<std::string(int64_t)>& text);
  Status write_record(const Table& t, const TableRecord& record);
  Status write_incomplete(const Table& t);
  Status unlink(const std::string& key);
  Status say(std::span<Command> commands, bool patient);
  Result<Update*> to_change(int32_t table);
  Status check_step(const Table& t, const Table& next, const TableRecord& record, bool* had);
  Status take_lease(const Table& t, int64_t* fence);
  Status put_record(const Table& t, int64_t fence, uint64_t lease_ms, const std::vector<std::string>& fields);
  Status ask_record(const Table& t, int64_t fence, uint64_t lease_ms, const std::vector<std::string>& fields,
                    Reply* reply);
  struct Change;
  Status change(const Table& t, const Update& u, const std::vector<Change>& changes);
  Status check_changed(const Table& t, const Update& u, const Reply& reply);
  Status fence_partitions(const Table& t, const Update& u);
  Status write_alias(const Table& t, const Update& u);
  Result<std::string> writer_of(const Table& t);
  int64_t masters() const;
  Status within(Status s, const Table& t) const;

  Cluster cluster_;
  const bool writes_;
  bool updates_ = false;
  std::vector<Table> tables_;
  std::vector<std::optional<Update>> under_way_;   // by table
  std::unique_ptr<std::atomic<int64_t>[]> newer_;  // by table: rows of updates behind its content
  const std::string token_;                        // of this writer
  std::string script_;                             // the hash by which servers know the one of update.cpp
};

}  // namespace dpi::redis
