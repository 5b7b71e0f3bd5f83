// How a table lies in Redis. All names are text, so that no byte of a key or a name is taken for a hash tag:
//
//   dpi1:{CONTENT:NAMEHASH:table}    hash: what the table is and how far it is written (TableRecord)
//   dpi1:{CONTENT:NAMEHASH:pN}       hash: rows of partition N; field = the key, 8 bytes, little endian;
//                                    value = the row. Field "sealed" is written when all rows are there.
//
// Redis evicts, expires and loses whole keys, and a replica has what its master had up to some moment: a
// partition whose seal is there has all its rows, so a key that is not in it is in no row of the table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "store/abi/dpi_store.h"
#include "store/redis/protocol.hpp"

namespace dpi::redis {

constexpr std::string_view kSealField = "sealed";

/// What a writer has said of a table; as text in Redis.
struct TableRecord {
  bool there = false;
  int64_t partitions = 0;
  int64_t written = 0;
  uint64_t digest = 0;
  bool complete = false;
};

class Table {
 public:
  /// The description checked: 64 hex digits, sizes that fit.
  static Result<Table> make(const dpi_store_table& described);

  const std::string& name() const { return name_; }
  int64_t rows() const { return rows_; }
  int64_t row_bytes() const { return row_bytes_; }
  bool keyed() const { return keyed_; }
  int64_t partitions() const { return static_cast<int64_t>(slots_.size()); }

  const std::string& record_key() const { return record_key_; }
  /// HSET of a record that says what the table is and `r`.
  std::string write_record(const TableRecord& r) const;
  /// The answer to HGETALL; not OK if it is of another table or none of ours.
  Result<TableRecord> read_record(const Reply& reply) const;

  void set_partitions(int64_t n);
  int64_t partition_of(int64_t key) const;
  std::string partition_key(int64_t partition) const;
  uint16_t partition_slot(int64_t partition) const { return slots_[static_cast<size_t>(partition)]; }
  /// What the field "sealed" of a whole partition says.
  std::string seal() const { return "dpi1 " + std::to_string(partitions()); }

  Status error(Code code, const std::string& what) const;

 private:
  Table() = default;

  std::string name_, content_, prefix_, record_key_;
  int64_t rows_ = 0, row_bytes_ = 0;
  int32_t dim_ = 0, dtype_ = 0;
  bool keyed_ = false;
  std::vector<uint16_t> slots_;  // of each partition
};

/// For so many rows: 10,000 to 20,000 rows each, but eight on each of `masters` servers where that leaves a
/// thousand rows in each.
int64_t choose_partitions(int64_t rows, int64_t masters);

/// The field of a key.
struct Field {
  char bytes[8];
  explicit Field(int64_t key);
  std::string_view view() const { return {bytes, sizeof bytes}; }
};

}  // namespace dpi::redis
