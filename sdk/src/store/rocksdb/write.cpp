#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstring>

#include "base/block_signals.hpp"
#include "store/rocksdb/errors.hpp"
#include "store/rocksdb/store.hpp"

namespace dpi::rocks {

rocksdb::WriteOptions Store::durable() {
  rocksdb::WriteOptions o;
  o.sync = true;
  return o;
}

namespace {

/// Keys of a table without keys are the numbers of its rows, so they need no look into the files.
Status check_numbers(const TableSpec& spec, const Record& record, const int64_t* keys, int64_t n) {
  if (spec.keyed) return {};
  for (int64_t i = 0; i < n; ++i) {
    if (keys[i] == record.done + i) continue;
    return invalid_argument("row " + std::to_string(record.done + i) + " has the key " +
                            std::to_string(keys[i]));
  }
  return {};
}

}  // namespace

Status Store::writable(int32_t table, Table** t) {
  *t = &tables_[static_cast<size_t>(table)];
  const std::string where = place((*t)->spec);
  if (!writes_) return invalid_argument(where + ": the store is open for reading");
  if ((*t)->rows == nullptr) return Status(Code::kNotFound, where + ": was dropped");
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!given_up_) return {};
  return Status(Code::kClosed, settings_.path + ": a write has failed; open the store again to go on");
}

/// Stops writing after a failure. The next open of the directory finds out what reached the disk.
Status Store::give_up(Status why) {
  const std::lock_guard<std::mutex> lock(mutex_);
  given_up_ = true;
  return why;
}

/// The batch and the record together, on the disk when it returns.
Status Store::put(Table* t, rocksdb::WriteBatch* batch, const Record& record) {
  return put(t, batch, record, t->updates);
}

Status Store::put(Table* t, rocksdb::WriteBatch* batch, const Record& record, const Updates& updates) {
  const BlockSignals blocked;
  rocksdb::Status s = batch->Put(t->spec.family(), encode(record, updates));
  if (s.ok()) s = db_->Write(durable(), batch);
  if (!s.ok()) return give_up(told(s, place(t->spec)));
  const std::lock_guard<std::mutex> lock(mutex_);
  t->record = record;
  t->updates = updates;
  return {};
}

Status Store::write(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n,
                    uint64_t digest) {
  Table* t = nullptr;
  DPI_RETURN_IF_ERROR(writable(table, &t));
  Record record = t->record;
  const std::string where = place(t->spec);
  if (updates_) return invalid_argument(where + ": the store is open for changing complete tables");
  if (record.complete != 0 || n > record.rows - record.done) {
    return invalid_argument(where + ": " + std::to_string(n) + " rows more than its " +
                            std::to_string(record.rows) + " after " + std::to_string(record.done));
  }
  if (Status s = check_numbers(t->spec, record, keys, n); !s.ok()) return std::move(s).within(where);
  const auto row_bytes = static_cast<size_t>(t->spec.row_bytes);
  rocksdb::WriteBatch batch(static_cast<size_t>(n) * (row_bytes + 24) + 256);
  for (int64_t i = 0; i < n; ++i) {
    char key[8];
    encode_key(keys[i], key);
    const auto* row = reinterpret_cast<const char*>(rows) + static_cast<size_t>(i) * row_bytes;
    const rocksdb::Status s = batch.Put(t->rows, rocksdb::Slice(key, 8), rocksdb::Slice(row, row_bytes));
    if (!s.ok()) return told(s, where);
  }
  record.done += n;
  record.digest = digest;
  return put(t, &batch, record);
}

/// Files first, in one level; then the record that lets readers in, and its file. A list of files that is
/// cut off anywhere (a damaged MANIFEST) so never has the record without the rows.
Status Store::complete(int32_t table) {
  Table* t = nullptr;
  DPI_RETURN_IF_ERROR(writable(table, &t));
  const std::string where = place(t->spec);
  Record record = t->record;
  if (record.complete != 0) return {};
  if (record.done != record.rows) {
    return invalid_argument(where + ": only " + std::to_string(record.done) + " of " +
                            std::to_string(record.rows) + " rows were written");
  }
  {
    const BlockSignals blocked;
    rocksdb::Status s = db_->Flush({}, {db_->DefaultColumnFamily(), t->rows});
    if (s.ok()) s = db_->CompactRange({}, t->rows, nullptr, nullptr);
    if (!s.ok()) return give_up(told(s, where));
  }
  if (Status s = count_rows(*t); !s.ok()) {
    return invalid_argument(s.message() + " (or a key was written twice)");
  }
  record.complete = 1;
  rocksdb::WriteBatch batch;
  DPI_RETURN_IF_ERROR(put(t, &batch, record));
  const rocksdb::Status s = db_->Flush({}, db_->DefaultColumnFamily());
  return s.ok() ? Status() : give_up(told(s, where));
}

Status Store::drop(int32_t table) {
  Table* t = nullptr;
  DPI_RETURN_IF_ERROR(writable(table, &t));
  const BlockSignals blocked;
  DPI_RETURN_IF_ERROR(drop_aliases(*t));
  rocksdb::Status s = db_->Delete(durable(), t->spec.family());  // first: rows without a record are nobody's
  if (s.ok()) s = db_->DropColumnFamily(t->rows);
  if (!s.ok()) return give_up(told(s, place(t->spec)));
  std::erase(families_, t->rows);
  static_cast<void>(db_->DestroyColumnFamilyHandle(t->rows));
  t->rows = nullptr;
  return {};
}

Result<dpi_store_stat> Store::stat(int32_t table) const {
  const Table& t = tables_[static_cast<size_t>(table)];
  if (t.rows == nullptr) return Status(Code::kNotFound, place(t.spec) + ": was dropped");
  dpi_store_stat found{};
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Updates& u = t.updates;
    const bool updating = u.next[0] != 0;
    found.rows = u.sequence > 0 ? u.rows : t.record.done;
    found.bytes = -1;
    found.digest = t.record.digest;
    found.complete = updating ? 0 : t.record.complete;
    found.sequence = u.sequence;
    found.updating = updating ? 1 : 0;
    const std::string now = u.sequence > 0 ? text_of(u.now) : t.spec.place;
    std::memcpy(found.content, now.data(), std::min(now.size(), sizeof(found.content) - 1));
  }
  uint64_t files = 0, memory = 0;
  if (db_->GetIntProperty(t.rows, rocksdb::DB::Properties::kLiveSstFilesSize, &files) &&
      db_->GetIntProperty(t.rows, rocksdb::DB::Properties::kCurSizeAllMemTables, &memory)) {
    found.bytes = static_cast<int64_t>(files + memory);
  }
  return found;
}

Status Store::count(int32_t table, dpi_store_loss* out) const {
  *out = {};
  const Table& t = tables_[static_cast<size_t>(table)];
  if (t.rows == nullptr) return Status(Code::kNotFound, place(t.spec) + ": was dropped");
  DPI_ASSIGN_OR_RETURN(const dpi_store_stat there, stat(table));
  out->rows = there.rows;
  // Files of an unfinished table may have a row twice.
  return there.complete != 0 ? count_rows(t) : Status();
}

}  // namespace dpi::rocks
