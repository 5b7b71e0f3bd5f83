#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/table_properties.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/block_signals.hpp"
#include "store/rocksdb/errors.hpp"
#include "store/rocksdb/file_check.hpp"
#include "store/rocksdb/store.hpp"

namespace dpi::rocks {
namespace {

constexpr const char* kMarker = "dpi-store";  // in the default column family
constexpr const char* kMarkerValue = "1";
constexpr int kTries = 5;  // a loader may take away a file between its name and its opening

/// RocksDB's own log would be a file beside the tables; what matters of it is in statuses.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

/// RocksDB's environment starts two threads for whoever opens a directory; reading has no work for them.
class NoThreads final : public rocksdb::EnvWrapper {
 public:
  NoThreads() : EnvWrapper(rocksdb::Env::Default()) {}
  const char* Name() const override { return "DpiReader"; }
  void IncBackgroundThreadsIfNeeded(int, Priority) override {}
};

rocksdb::Env* reading_env() {
  static NoThreads* env = new NoThreads;  // never destroyed, as RocksDB's own
  return env;
}

/// Is there a RocksDB? *why_not: of a path that cannot be looked at.
bool holds_database(const std::string& path, int* why_not) {
  struct stat found{};
  if (stat((path + "/CURRENT").c_str(), &found) == 0) return true;
  *why_not = errno;
  return false;
}

}  // namespace

rocksdb::DBOptions Store::db_options(bool read_only) const {
  rocksdb::DBOptions o;
  if (read_only) o.env = reading_env();
  o.info_log = std::make_shared<NoLog>();
  o.max_open_files = -1;           // every file is opened, and its size looked at, now
  o.max_file_opening_threads = 1;  // this one
  o.stats_dump_period_sec = 0;     // no thread of its own
  o.stats_persist_period_sec = 0;
  o.allow_mmap_reads = read_only && settings_.reads == Reads::kMmap;
  o.use_direct_reads = read_only && settings_.reads == Reads::kDirect;
  o.create_if_missing = !read_only;
  o.create_missing_column_families = !read_only;
  o.atomic_flush = true;  // rows and their record are flushed together
  o.max_background_jobs = 2;
  o.max_total_wal_size = uint64_t{1} << 30;
  return o;
}

rocksdb::ColumnFamilyOptions Store::family_options() const {
  rocksdb::BlockBasedTableOptions table;
  table.block_size = 4096;  // smaller ones need a larger index: 121 MB for 375 M rows of 64 bytes
  table.checksum = rocksdb::kXXH3;
  table.format_version = 5;
  const bool mapped = settings_.reads == Reads::kMmap;
  table.no_block_cache = mapped;  // read where they lie
  if (!mapped) table.block_cache = rocksdb::NewLRUCache(settings_.cache_bytes);
  rocksdb::ColumnFamilyOptions o;
  o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  o.compression = rocksdb::kNoCompression;
  o.write_buffer_size = size_t{64} << 20;
  o.target_file_size_base = uint64_t{256} << 20;
  o.max_bytes_for_level_base = uint64_t{1} << 30;
  o.level_compaction_dynamic_level_bytes = true;
  return o;
}

Result<std::unique_ptr<Store>> Store::open(const dpi_store_options& options, const dpi_store_table* tables,
                                           int32_t n_tables) {
  DPI_ASSIGN_OR_RETURN(Settings settings, read_settings(options));
  std::unique_ptr<Store> store(new Store(std::move(settings)));
  for (int32_t i = 0; i < n_tables; ++i) {
    store->tables_.push_back({TableSpec(tables[i]), {}, {}, nullptr});
    DPI_RETURN_IF_ERROR(check_spec(store->tables_.back().spec));
  }
  const BlockSignals blocked;  // RocksDB starts threads for loading
  store->updates_ = options.mode == DPI_STORE_UPDATE;
  if (options.mode == DPI_STORE_WRITE || options.mode == DPI_STORE_UPDATE) {
    DPI_RETURN_IF_ERROR(store->open_for_writing());
    return store;
  }
  Status s;
  for (int i = 0; i < kTries; ++i) {
    s = store->open_for_reading();
    if (s.ok() || s.code() == Code::kNotFound || s.code() == Code::kOutOfMemory) break;
  }
  DPI_RETURN_IF_ERROR(std::move(s));
  DPI_RETURN_IF_ERROR(store->read_tables());
  return store;
}

Store::~Store() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* f : families_) static_cast<void>(db_->DestroyColumnFamilyHandle(f));
  static_cast<void>(db_->Close());
}

Result<std::vector<std::string>> Store::list_families() const {
  std::vector<std::string> names;
  const rocksdb::Status s = rocksdb::DB::ListColumnFamilies(db_options(true), settings_.path, &names);
  if (!s.ok()) return told(s, settings_.path, Code::kIo);
  return names;
}

/// whole: families that are complete. Nothing but an update adds to their files, which are counted by whoever
/// reads; so nothing but an update merges them.
Status Store::open_families(bool read_only, const std::vector<std::string>& names,
                            const std::vector<std::string>& whole) {
  DPI_RETURN_IF_ERROR(check_files(settings_.path));
  for (rocksdb::ColumnFamilyHandle* f : families_) static_cast<void>(db_->DestroyColumnFamilyHandle(f));
  families_.clear();
  db_.reset();
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  descriptors.reserve(names.size());
  for (const std::string& name : names) {
    descriptors.emplace_back(name, family_options());
    if (std::find(whole.begin(), whole.end(), name) != whole.end())
      descriptors.back().options.disable_auto_compactions = true;
  }
  rocksdb::DB* db = nullptr;
  const rocksdb::DBOptions o = db_options(read_only);
  const rocksdb::Status s =
      read_only ? rocksdb::DB::OpenForReadOnly(o, settings_.path, descriptors, &families_, &db)
                : rocksdb::DB::Open(o, settings_.path, descriptors, &families_, &db);
  db_.reset(db);
  return told(s, settings_.path, Code::kIo);
}

rocksdb::ColumnFamilyHandle* Store::family(const std::string& name) const {
  for (rocksdb::ColumnFamilyHandle* f : families_) {
    if (f->GetName() == name) return f;
  }
  return nullptr;
}

Status Store::open_for_reading() {
  int why_not = 0;
  if (!holds_database(settings_.path, &why_not)) {
    const bool absent = why_not == ENOENT || why_not == ENOTDIR;
    const std::string text =
        settings_.path + ": " +
        (absent ? "holds no tables; `dpi store load` makes them" : std::strerror(why_not));
    return Status(absent ? Code::kNotFound : Code::kIo, text).native(why_not);
  }
  DPI_ASSIGN_OR_RETURN(const std::vector<std::string> there, list_families());
  std::vector<std::string> names{rocksdb::kDefaultColumnFamilyName};
  const auto missing = [&](const Table& t) {
    return std::find(there.begin(), there.end(), t.spec.family()) == there.end();
  };
  if (std::any_of(tables_.begin(), tables_.end(), missing)) {
    DPI_RETURN_IF_ERROR(open_families(true, names));
    DPI_RETURN_IF_ERROR(find_places());
  }
  for (const Table& t : tables_) {
    const std::string name = t.spec.family();
    if (std::find(there.begin(), there.end(), name) == there.end()) {
      return Status(Code::kNotFound, place(t.spec) + " of content " + t.spec.content.substr(0, 12) +
                                         "... is not there; `dpi store load` puts it there");
    }
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return open_families(true, names);
}

/// All their files are open: nothing that a loader does changes what is read from here on.
Status Store::read_tables() {
  bool marked = false;
  DPI_RETURN_IF_ERROR(check_marker(true, &marked));
  for (Table& t : tables_) DPI_RETURN_IF_ERROR(read_table(&t));
  return {};
}

/// Finds tables that became the requested content after they were loaded.
Status Store::find_places() {
  for (Table& t : tables_) {
    std::optional<Alias> alias;
    DPI_RETURN_IF_ERROR(alias_of(t.spec, &alias));
    if (alias) t.spec.place = text_of(alias->place);
  }
  return {};
}

Status Store::alias_of(const TableSpec& spec, std::optional<Alias>* alias) const {
  std::string bytes;
  const rocksdb::Status s = db_->Get({}, db_->DefaultColumnFamily(), spec.alias(), &bytes);
  if (s.IsNotFound()) return {};
  if (s.ok()) *alias = decode_alias(bytes);
  return told(s, place(spec));
}

Status Store::read_table(Table* t) {
  bool found = false;
  DPI_RETURN_IF_ERROR(record_of(t, &found));
  const std::string where = place(t->spec);
  if (!found) return Status(Code::kNotFound, where + ": no rows were written; `dpi store load` writes them");
  if (Status s = check_shape(t->spec, t->record, t->updates); !s.ok()) return std::move(s).within(where);
  if (t->record.complete == 0) {
    return bad_model(where + ": only " + std::to_string(t->record.done) + " of " +
                     std::to_string(t->record.rows) + " rows were written; `dpi store load` goes on");
  }
  DPI_RETURN_IF_ERROR(check_content(*t));
  t->rows = family(t->spec.family());
  return t->updates.next[0] != 0 ? Status() : count_rows(*t);
}

/// A table that has become another content, or is on its way to one, is not what was asked for.
Status Store::check_content(const Table& t) const {
  const Updates& u = t.updates;
  const std::string now = u.sequence > 0 ? text_of(u.now) : t.spec.place;
  if (t.spec.stale || (now == t.spec.content && u.next[0] == 0)) return {};
  const std::string what =
      now == t.spec.content
          ? "is becoming " + text_of(u.next).substr(0, 12) + "... and not whole; `dpi store update` ends it"
          : "has become " + now.substr(0, 12) + "... by update " + std::to_string(u.sequence);
  return Status(Code::kNotFound, place(t.spec) + ": content " + t.spec.content.substr(0, 12) + "... " + what +
                                     "; load the model of the table's version, or accept rows of later "
                                     "versions with option table.NAME.update=stale");
}

Status Store::record_of(Table* t, bool* found) const {
  std::string bytes;
  const std::string name = t->spec.family();
  const rocksdb::Status s = db_->Get({}, db_->DefaultColumnFamily(), name, &bytes);
  *found = !s.IsNotFound();
  if (!*found) return {};
  DPI_RETURN_IF_ERROR(told(s, place(t->spec)));
  if (decode(bytes, &t->record, &t->updates)) return {};
  return Status(Code::kVersion, place(t->spec) + ": was written by another version of the plugin");
}

/// The files say how many rows each has; their sum shows whether the list of files lost some.
Status Store::count_rows(const Table& t) const {
  rocksdb::TablePropertiesCollection files;
  if (const rocksdb::Status s = db_->GetPropertiesOfAllTables(t.rows, &files); !s.ok()) {
    return told(s, place(t.spec));
  }
  uint64_t rows = 0;
  for (const auto& [name, properties] : files) rows += properties->num_entries;
  const int64_t expected = t.updates.sequence > 0 ? t.updates.entries : t.record.rows;
  if (rows == static_cast<uint64_t>(expected)) return {};
  return Status(Code::kIo, place(t.spec) + ": is damaged: its files have " + std::to_string(rows) +
                               " rows, expected " + std::to_string(expected) +
                               "; take the directory away and load its tables again");
}

/// An empty directory without a marker is of a loader that was killed before it set it.
Status Store::check_marker(bool used, bool* set) {
  std::string value;
  const rocksdb::Status s = db_->Get({}, kMarker, &value);
  if (!s.ok() && !s.IsNotFound()) return told(s, settings_.path);
  *set = s.ok() && value == kMarkerValue;
  if (*set) return {};
  const std::unique_ptr<rocksdb::Iterator> first(db_->NewIterator({}));
  first->SeekToFirst();
  if (!used && !first->Valid()) return told(first->status(), settings_.path);
  return invalid_argument(settings_.path + ": is a RocksDB directory of something else; name another one");
}

Status Store::open_for_writing() {
  writes_ = true;
  int why_not = 0;
  bool marked = false;
  std::vector<std::string> names{rocksdb::kDefaultColumnFamilyName}, whole;
  if (holds_database(settings_.path, &why_not)) {
    DPI_ASSIGN_OR_RETURN(names, list_families());
    // Looked at before anything is written: opening for writing tidies up.
    DPI_RETURN_IF_ERROR(open_families(true, {rocksdb::kDefaultColumnFamilyName}));
    DPI_RETURN_IF_ERROR(check_marker(names.size() > 1, &marked));
    DPI_RETURN_IF_ERROR(find_places());
    DPI_ASSIGN_OR_RETURN(whole, complete_families(names));
  }
  DPI_RETURN_IF_ERROR(open_families(false, names, whole));
  rocksdb::WriteOptions sync;
  sync.sync = true;
  if (!marked) DPI_RETURN_IF_ERROR(told(db_->Put(sync, kMarker, kMarkerValue), settings_.path));
  for (Table& t : tables_) DPI_RETURN_IF_ERROR(begin_table(&t));
  return {};
}

Result<std::vector<std::string>> Store::complete_families(const std::vector<std::string>& names) const {
  std::vector<std::string> whole;
  for (const std::string& name : names) {
    std::string bytes;
    Record record;
    Updates updates;
    const rocksdb::Status s = db_->Get({}, db_->DefaultColumnFamily(), name, &bytes);
    if (!s.ok() && !s.IsNotFound()) return told(s, settings_.path);
    if (s.ok() && decode(bytes, &record, &updates) && record.complete != 0) whole.push_back(name);
  }
  return whole;
}

/// Goes on with a table that is there, or begins it. A family without a record is what a drop left.
Status Store::begin_table(Table* t) {
  bool found = false;
  DPI_RETURN_IF_ERROR(record_of(t, &found));
  const std::string name = t->spec.family();
  t->rows = family(name);
  if (found && t->rows != nullptr) {
    if (Status s = check_shape(t->spec, t->record, t->updates); !s.ok())
      return std::move(s).within(place(t->spec));
    const std::string now = t->updates.sequence > 0 ? text_of(t->updates.now) : t->spec.place;
    if (updates_ || now == t->spec.content) return {};
    return invalid_argument(place(t->spec) + ": content " + t->spec.content.substr(0, 12) +
                            "... has become " + now.substr(0, 12) +
                            "... by updates; drop it by that bundle first");
  }
  if (updates_)
    return Status(Code::kNotFound, place(t->spec) + " of content " + t->spec.content.substr(0, 12) +
                                       "... is not there; `dpi store load` puts it there");
  if (t->rows != nullptr) DPI_RETURN_IF_ERROR(told(db_->DropColumnFamily(t->rows), place(t->spec)));
  rocksdb::ColumnFamilyHandle* made = nullptr;
  DPI_RETURN_IF_ERROR(told(db_->CreateColumnFamily(family_options(), name, &made), place(t->spec)));
  if (t->rows != nullptr) {
    std::erase(families_, t->rows);
    static_cast<void>(db_->DestroyColumnFamilyHandle(t->rows));
  }
  families_.push_back(made);
  t->rows = made;
  t->record = begun(t->spec);
  return {};
}

}  // namespace dpi::rocks
