// How a table lies in Redis. All names are text, so that no byte of a key or a name is taken for a hash tag:
//
//   dpi1:{CONTENT:NAMEHASH:table}    hash: what the table is and how far it is written (TableRecord)
//   dpi1:{CONTENT:NAMEHASH:pN}       hash: rows of partition N; field = the key, 8 bytes, little endian;
//                                    value = the row. Field "sealed" is written when all rows are there:
//                                    "dpi1 PARTITIONS", after a repair of update SEQUENCE's rows "dpi1
//                                    PARTITIONS SEQUENCE", since the keys that were gone by then are unknown
//
// A table that was updated keeps its place, whose CONTENT is what it was loaded as. There, beside the above:
//
//   dpi1:{CONTENT:NAMEHASH:table}    fields "now", "sequence" ...: what it has become, and what it becomes
//   dpi1:{CONTENT:NAMEHASH:table}:writer   who changes it, for as long as its lease runs
//   dpi1:{CONTENT:NAMEHASH:pN}       values of changed rows: the row, then the update's number (8 bytes);
//   keys
//                                    that are gone: the number alone. Field "update": "FENCE SEQUENCE GONE",
//                                    which the script asks before it writes (update.cpp)
//   dpi1:{NOW:NAMEHASH:table}        hash: the same table by a later content, and "at", its place
//
// Redis evicts, expires and loses whole keys, and a replica has what its master had up to some moment: a
// partition whose seal is there has all its rows, so a key that is not in it is in no row of the table.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "store/abi/dpi_store.h"
#include "store/redis/protocol.hpp"

namespace dpi::redis {

constexpr std::string_view kSealField = "sealed";
constexpr std::string_view kUpdateField = "update";
constexpr size_t kSequenceBytes = 8;  // behind a changed row

/// What a writer has said of a table; as text in Redis.
struct TableRecord {
  bool there = false;
  bool lost = false;  // there was one: another content's name leads to it
  int64_t partitions = 0;
  int64_t written = 0;
  uint64_t digest = 0;
  bool complete = false;

  std::string at;  // found by a later content: its place, and nothing else but `sequence`
  std::string now, next,
      before;  // contents: what it is; what it becomes, "" = nothing; what it was, by spaces
  int64_t rows = 0, next_rows = 0;  // of `now` and `next`
  int64_t sequence = 0;
  int64_t done = 0;     // changes of the update to `next` that are there
  uint64_t update = 0;  // its id
  int64_t fence = 0;    // how many writers there were
};

/// "FENCE SEQUENCE GONE" of a partition; zeros of one that was never updated.
struct PartitionUpdate {
  int64_t fence = 0, sequence = 0;
  int64_t gone = 0;  // fields that say of a key that it has no row
};
bool read_partition_update(std::string_view text, PartitionUpdate* out);

class Table {
 public:
  /// The description checked: 64 hex digits, sizes that fit.
  static Result<Table> make(const dpi_store_table& described);

  const std::string& name() const { return name_; }
  int64_t rows() const { return rows_; }
  int64_t row_bytes() const { return row_bytes_; }
  bool keyed() const { return keyed_; }
  const std::string& content() const { return content_; }
  /// The content that the table was loaded as; set_place once it is known that this is not content().
  const std::string& place() const { return place_; }
  void set_place(const std::string& place);
  std::string record_key_of(const std::string& content) const;
  bool stale() const { return stale_; }
  /// Of the updates that made it content().
  int64_t sequence() const { return sequence_; }
  void set_sequence(int64_t n) { sequence_ = n; }
  int64_t partitions() const { return static_cast<int64_t>(slots_.size()); }

  const std::string& record_key() const { return record_key_; }
  /// HSET of a record that says what the table is and `r`.
  std::string write_record(const TableRecord& r) const;
  /// HSET of what leads from content() to the place of a table that has become it by update `sequence`.
  std::string write_alias(const std::string& place, int64_t sequence) const;
  /// The answer to HGETALL; not OK if it is of another table or none of ours.
  Result<TableRecord> read_record(const Reply& reply) const;
  ValueForm form() const { return {static_cast<size_t>(row_bytes_), gone_bytes(), sequence_}; }
  /// Of the value of a key that has no row since an update: unlike any row's.
  size_t gone_bytes() const { return row_bytes_ == kSequenceBytes ? kSequenceBytes + 1 : kSequenceBytes; }

  void set_partitions(int64_t n);
  int64_t partition_of(int64_t key) const;
  std::string partition_key(int64_t partition) const;
  uint16_t partition_slot(int64_t partition) const { return slots_[static_cast<size_t>(partition)]; }
  /// The field "sealed" of a whole partition. sequence: of the update whose rows were written again
  /// after a loss, 0 = it has had all rows since it was loaded.
  std::string seal(int64_t sequence = 0) const;
  /// The update that a seal is of; -1 if it is none of this table's.
  int64_t sealed_at(std::string_view seal) const;

  Status error(Code code, const std::string& what) const;

 private:
  Table() = default;

  Status read_numbers(const std::map<std::string, std::string>& fields, TableRecord* r) const;

  std::string name_, content_, place_, prefix_, record_key_;
  int64_t rows_ = 0, row_bytes_ = 0, sequence_ = 0;
  int32_t dim_ = 0, dtype_ = 0;
  bool keyed_ = false, stale_ = false;
  std::vector<uint16_t> slots_;  // of each partition
};

/// For so many rows: 10,000 to 20,000 rows each, but eight on each of `masters` servers where that leaves a
/// thousand rows in each.
int64_t choose_partitions(int64_t rows, int64_t masters);

/// How many partitions the table of a seal has; 0 if it is none.
int64_t partitions_of_seal(std::string_view seal);

/// The field of a key.
struct Field {
  char bytes[8];
  explicit Field(int64_t key);
  std::string_view view() const { return {bytes, sizeof bytes}; }
};

}  // namespace dpi::redis
