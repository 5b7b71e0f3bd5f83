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

/// Cures for a table that has become another content; that lacks rows; that lacks its record.
extern const char kUpdatedHint[], kRepairIt[], kRecordLost[];

class Store {
 public:
  static Result<std::unique_ptr<Store>> open(const dpi_store_options& options, const dpi_store_table* tables,
                                             int32_t n_tables);

  Status fetch(const dpi_store_fetch& request);  // fetch.cpp
  Status write(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n, uint64_t digest);
  Status complete(int32_t table);
  Status stat(int32_t table, dpi_store_stat* out);
  Status drop(int32_t table);
  int32_t nodes(dpi_store_node* to, int32_t room) const;
  int32_t route(int32_t table, int64_t key) const;
  /// Adds to what is said of a partition the server that has it now.
  Status within_partition(Status s, const Table& t, int64_t partition) const;

  // update.cpp
  Status begin_update(int32_t table, const dpi_store_table& next, uint64_t id, int64_t* done);
  Status update(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n, int64_t done);
  Status end_update(int32_t table);

  // repair.cpp
  Status count(int32_t table, dpi_store_loss* out);
  Status begin_repair(int32_t table);
  Status repair(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n);
  Status end_repair(int32_t table);

 private:
  /// Of a table that this handle changes.
  struct Update {
    Table next;
    int64_t fence = 0, sequence = 0;
  };

  /// One partition, as it is found.
  struct Part {
    int64_t rows = 0;
    int64_t sealed = -1;  // the update that its seal is of, -1 = none
    PartitionUpdate update;
  };
  /// A repair that this handle has begun.
  struct Repair {
    TableRecord record;
    std::vector<Part> parts;        // as they were when it began
    std::vector<int64_t> expected;  // rows of each, by the keys that came
    std::vector<bool> lost;         // once all keys have come and it has claimed these
    bool claimed = false;
    int64_t fence = 0;        // of a complete table
    uint64_t renewed_ns = 0;  // the lease
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
  Result<std::vector<Part>> look_at_parts(const Table& t, bool patient);
  Status check_for_looking(Table& t);
  Status begin(Table& t, TableRecord* record);
  Status adopt_partitions(Table& t, bool* updated);
  Status write_block(const Table& t, const int64_t* keys, const unsigned char* values, int64_t n,
                     int64_t value_bytes);
  Result<Repair*> to_repair(int32_t table);
  static bool part_is_lost(const Repair& r, size_t part);
  Status renew(const Table& t, Repair* r);
  struct Run;
  Status run_repair(const Table& t, const Repair& r, const char* step, std::span<const Run> runs);
  Status claim(const Table& t, Repair* r);
  Status check_incomplete(const Table& t, const Repair& r);
  Status write_lost(const Table& t, Repair* r, const int64_t* keys, const unsigned char* rows, int64_t n);
  Status write_unfenced(const Table& t, const Repair& r, const int64_t* keys, const unsigned char* rows,
                        int64_t n);
  Status surplus(const Table& t, const Repair& r, size_t part, const Part& found) const;
  Status seal_repaired(const Table& t, const Repair& r);
  Status check_repaired(const Table& t, const Repair& r, const std::vector<Part>& parts);
  std::string why_lost(uint16_t slot);
  Status absent(const Table& t, const TableRecord& record);
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
  Status write_alias(const Table& t, const Table& next, int64_t sequence);
  Status restore_alias(const Table& t, const Table& next, int64_t sequence);
  Result<std::string> writer_of(const Table& t);
  int64_t masters() const;
  Status within(Status s, const Table& t) const;

  Cluster cluster_;
  const bool writes_;
  bool updates_ = false, looks_ = false;
  std::vector<Table> tables_;
  std::vector<std::optional<Update>> under_way_;   // by table
  std::vector<std::optional<Repair>> repairs_;     // by table
  std::unique_ptr<std::atomic<int64_t>[]> newer_;  // by table: rows of updates behind its content
  const std::string token_;                        // of this writer
  std::string script_;                             // the hash by which servers know the one of update.cpp
};

}  // namespace dpi::redis
