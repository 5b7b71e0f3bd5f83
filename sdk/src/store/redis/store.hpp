// What the plugin's functions do, without the C boundary (plugin.cpp): tables in Redis that are read or
// written.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "store/abi/dpi_store.h"
#include "store/redis/cluster.hpp"
#include "store/redis/exchange.hpp"
#include "store/redis/table.hpp"

namespace dpi::redis {

class Store {
 public:
  static Result<std::unique_ptr<Store>> open(const dpi_store_options& options, const dpi_store_table* tables,
                                             int32_t n_tables);

  Status fetch(const dpi_store_fetch& request);  // fetch.cpp
  Status write(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n, uint64_t digest);
  Status complete(int32_t table);
  Status stat(int32_t table, dpi_store_stat* out);
  Status drop(int32_t table);

 private:
  explicit Store(Settings settings) : cluster_(std::move(settings)) {}

  Status check_for_reading(Table& t);
  Result<Table*> to_write(int32_t table);
  Result<TableRecord> record_of(const Table& t, bool patient);
  /// All rows that Redis has, or an error that says which partition lacks its seal.
  Result<int64_t> count_rows(const Table& t, bool sealed, bool patient);
  Status begin(Table& t, TableRecord* record);
  Status write_block(const Table& t, const int64_t* keys, const unsigned char* rows, int64_t n);
  /// One command for each partition, in steps.
  Status each_partition(const Table& t, const std::function<std::string(int64_t)>& text);
  Status write_record(const Table& t, const TableRecord& record);
  Status say(std::span<Command> commands, bool patient);
  int64_t masters() const;
  Status within(Status s, const Table& t) const;

  Cluster cluster_;
  bool writes_ = false;
  std::vector<Table> tables_;
};

}  // namespace dpi::redis
