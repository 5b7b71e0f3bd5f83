// Rows of a complete table that change in place. Every batch has its rows and how far the update is, in one
// write; whoever reads sees the table as it was when it was opened, so no row is torn and no request mixes
// versions. One process at a time opens the directory for writing.
#include <rocksdb/metadata.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/block_signals.hpp"
#include "store/rocksdb/errors.hpp"
#include "store/rocksdb/store.hpp"

namespace dpi::rocks {
namespace {

// A table is merged into one level again when this many files lie above it, or rows that nobody sees any more
// are a quarter of it: until then each update costs its own rows, and a read looks into each of the files.
constexpr size_t kMostFiles = 32;

void set_content(const std::string& from, char (*to)[64]) {
  std::memset(*to, 0, sizeof(*to));
  std::memcpy(*to, from.data(), std::min(from.size(), sizeof(*to)));
}

std::string now_of(const TableSpec& spec, const Updates& u) {
  return u.sequence > 0 ? text_of(u.now) : spec.place;
}

}  // namespace

Status Store::changing(int32_t table, Table** t) {
  DPI_RETURN_IF_ERROR(writable(table, t));
  if (updates_ && (*t)->updates.next[0] != 0) return {};
  return invalid_argument(place((*t)->spec) + ": no update of it has begun");
}

/// Checks the table against the content that the update starts from. *had: it has been `next` already.
Status Store::check_step(const Table& t, const std::string& next, bool* had) const {
  const std::string where = place(t.spec), now = now_of(t.spec, t.updates);
  if (t.record.complete == 0) return Status(Code::kNotFound, where + ": is not complete; load it first");
  if (now == t.spec.content) {
    if (t.updates.next[0] == 0 || text_of(t.updates.next) == next) return {};
    return bad_model(where + ": is becoming " + text_of(t.updates.next).substr(0, 12) +
                     "... by another update, which has not ended; give that delta first");
  }
  TableSpec later = t.spec;
  later.content = next;
  std::optional<Alias> alias;
  DPI_RETURN_IF_ERROR(alias_of(later, &alias));
  *had = now == next || next == t.spec.place || (alias && text_of(alias->place) == t.spec.place);
  if (*had) return {};
  return bad_model(where + ": is content " + now.substr(0, 12) + "... of update " +
                   std::to_string(t.updates.sequence) + ", the update starts from " +
                   t.spec.content.substr(0, 12) + "...");
}

Result<int64_t> Store::begin_update(int32_t table, const dpi_store_table& next, uint64_t id) {
  Table* t = nullptr;
  DPI_RETURN_IF_ERROR(writable(table, &t));
  const std::string where = place(t->spec);
  if (!updates_) return invalid_argument(where + ": the store is not open for updates");
  const TableSpec to(next);
  DPI_RETURN_IF_ERROR(check_spec(to));
  bool had = false;
  DPI_RETURN_IF_ERROR(check_step(*t, to.content, &had));
  if (had) return -1;
  if (to.content != t->spec.place && family("rows/" + to.content + "/" + to.name) != nullptr)
    return invalid_argument(where + ": content " + to.content.substr(0, 12) +
                            "... was loaded beside it; drop one of the two first");
  Updates u = t->updates;
  if (u.next[0] == 0 || u.id != id) u.done = 0;
  set_content(now_of(t->spec, u), &u.now);
  if (u.sequence == 0) u.rows = t->record.rows;
  set_content(to.content, &u.next);
  u.next_rows = to.rows;
  u.id = id;
  rocksdb::WriteBatch batch;
  DPI_RETURN_IF_ERROR(put(t, &batch, t->record, u));
  return u.done;
}

Status Store::update(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n, int64_t done) {
  Table* t = nullptr;
  DPI_RETURN_IF_ERROR(changing(table, &t));
  const auto row_bytes = static_cast<size_t>(t->spec.row_bytes);
  rocksdb::WriteBatch batch(static_cast<size_t>(n) * (row_bytes + 24) + 512);
  for (int64_t i = 0; i < n; ++i) {
    char key[8];
    encode_key(keys[i], key);
    const auto* row = reinterpret_cast<const char*>(rows) + static_cast<size_t>(i) * row_bytes;
    const rocksdb::Status s = rows != nullptr
                                  ? batch.Put(t->rows, rocksdb::Slice(key, 8), rocksdb::Slice(row, row_bytes))
                                  : batch.Delete(t->rows, rocksdb::Slice(key, 8));
    if (!s.ok()) return told(s, place(t->spec));
  }
  Updates u = t->updates;
  u.done = done;
  return put(t, &batch, t->record, u);
}

/// All rows in files, and merged where that is due. Gives how many entries the files have.
Result<int64_t> Store::settle(Table* t) {
  const BlockSignals blocked;
  const auto entries = [&]() -> Result<int64_t> {
    rocksdb::TablePropertiesCollection files;
    if (const rocksdb::Status s = db_->GetPropertiesOfAllTables(t->rows, &files); !s.ok())
      return told(s, place(t->spec));
    uint64_t n = 0;
    for (const auto& [name, properties] : files) n += properties->num_entries;
    return static_cast<int64_t>(n);
  };
  rocksdb::Status s = db_->Flush({}, {db_->DefaultColumnFamily(), t->rows});
  if (!s.ok()) return give_up(told(s, place(t->spec)));
  DPI_ASSIGN_OR_RETURN(int64_t n, entries());
  rocksdb::ColumnFamilyMetaData files;
  db_->GetColumnFamilyMetaData(t->rows, &files);
  const int64_t rows = t->updates.next_rows;
  if (n - rows <= rows / 4 && files.levels[0].files.size() < kMostFiles) return n;
  s = db_->CompactRange({}, t->rows, nullptr, nullptr);
  if (!s.ok()) return give_up(told(s, place(t->spec)));
  DPI_ASSIGN_OR_RETURN(n, entries());
  if (n == rows) return n;
  return bad_model(place(t->spec) + ": has " + std::to_string(n) + " rows after the update, expected " +
                   std::to_string(rows) + "; drop it and load it again");
}

Status Store::end_update(int32_t table) {
  Table* t = nullptr;
  DPI_RETURN_IF_ERROR(changing(table, &t));
  Updates u = t->updates;
  DPI_ASSIGN_OR_RETURN(u.entries, settle(t));
  ++u.sequence;
  u.rows = u.next_rows;
  std::memcpy(u.now, u.next, sizeof(u.now));
  std::memset(u.next, 0, sizeof(u.next));
  u.next_rows = u.done = 0;
  u.id = 0;
  rocksdb::WriteBatch batch;
  TableSpec now = t->spec;
  now.content = text_of(u.now);
  if (now.content != t->spec.place) {
    Alias alias;
    alias.sequence = u.sequence;
    set_content(t->spec.place, &alias.place);
    const rocksdb::Status s = batch.Put(now.alias(), encode(alias));
    if (!s.ok()) return told(s, place(t->spec));
  }
  DPI_RETURN_IF_ERROR(put(t, &batch, t->record, u));
  const rocksdb::Status s = db_->Flush({}, db_->DefaultColumnFamily());
  return s.ok() ? Status() : give_up(told(s, place(t->spec)));
}

/// All contents by which a table is found, but that of its place.
Status Store::drop_aliases(const Table& t) {
  rocksdb::WriteBatch batch;
  const std::string tail = "/" + t.spec.name;
  const std::unique_ptr<rocksdb::Iterator> at(db_->NewIterator({}, db_->DefaultColumnFamily()));
  for (at->Seek("rows/"); at->Valid() && at->key().starts_with("rows/"); at->Next()) {
    const std::optional<Alias> alias = decode_alias(at->value().ToStringView());
    if (!alias || text_of(alias->place) != t.spec.place || !at->key().ends_with(tail)) continue;
    if (at->key().size() != sizeof("rows/") - 1 + 64 + tail.size()) continue;
    if (const rocksdb::Status s = batch.Delete(at->key()); !s.ok()) return told(s, place(t.spec));
  }
  if (!at->status().ok()) return told(at->status(), place(t.spec));
  const rocksdb::Status s = db_->Write(durable(), &batch);
  return s.ok() ? Status() : give_up(told(s, place(t.spec)));
}

}  // namespace dpi::rocks
