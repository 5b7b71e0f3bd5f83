// Rows -> Redis: HSET in blocks, then the record says how far it is. A writer that is killed in between
// writes the same rows again, which changes nothing.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <sstream>

#include "base/printable.hpp"
#include "store/redis/slots.hpp"
#include "store/redis/store.hpp"

namespace dpi::redis {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;     // under way at once
constexpr size_t kCommandBytes = 128 << 10;  // a server does nothing else while it answers one
constexpr int64_t kPartitionsAtOnce = 256;

// HSET of one partition, filled until it is large enough.
struct Hset {
  int64_t partition = 0;
  size_t rows = 0;
  std::string fields;

  void add(int64_t key, const unsigned char* row, int64_t row_bytes) {
    append_argument(fields, Field(key).view());
    append_argument(fields, {reinterpret_cast<const char*>(row), static_cast<size_t>(row_bytes)});
    ++rows;
  }
  Command command(const Table& t) const {
    Command c;
    c.slot = t.partition_slot(partition);
    append_count(c.text, 2 + 2 * rows);
    append_argument(c.text, "HSET");
    append_argument(c.text, t.partition_key(partition));
    c.text += fields;
    return c;
  }
};

// Above those of a table that was dropped, or whose record was lost, so that its writers and this one's are
// told apart.
int64_t first_fence() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<std::chrono::milliseconds>(system_clock::now().time_since_epoch())
      .count();
}

// A number is what HSET and UNLINK answer.
void give_sinks(std::vector<Command>& commands, std::vector<TreeSink>& sinks) {
  sinks.assign(commands.size(), TreeSink(Item::kInteger));
  for (size_t i = 0; i < commands.size(); ++i) commands[i].sink = &sinks[i];
}

}  // namespace

Result<Table*> Store::to_write(int32_t table) {
  if (table < 0 || table >= static_cast<int32_t>(tables_.size()))
    return invalid_argument("redis: no such table");
  if (!writes_) return invalid_argument("redis: is open for reading");
  if (updates_) return invalid_argument("redis: is open for changing complete tables");
  return &tables_[static_cast<size_t>(table)];
}

Status Store::write_record(const Table& t, const TableRecord& record) {
  TreeSink sink(Item::kInteger);
  Command c;
  c.slot = slot_of(t.record_key());
  c.text = t.write_record(record);
  c.sink = &sink;
  return say({&c, 1}, true);
}

Status Store::write_incomplete(const Table& t) {
  TreeSink sink(Item::kInteger);
  Command c;
  c.slot = slot_of(t.record_key());
  c.text = command({"HSET", t.record_key(), "complete", "0"});
  c.sink = &sink;
  return say({&c, 1}, true);
}

// A record may be lost alone, evicted for instance: a seal says how many partitions there are. *updated:
// their rows have had updates.
Status Store::adopt_partitions(Table& t, bool* updated) {
  const int64_t wished = cluster_.settings().partitions;
  t.set_partitions(wished > 0 ? wished : choose_partitions(t.rows(), masters()));
  int64_t partitions = t.partitions();
  for (int64_t first = 0; first < t.partitions(); first += kPartitionsAtOnce) {
    std::vector<Command> commands;
    for (int64_t p = first; p < std::min(first + kPartitionsAtOnce, t.partitions()); ++p) {
      Command& c = commands.emplace_back();
      c.slot = t.partition_slot(p);
      c.text = command({"HMGET", t.partition_key(p), kSealField, kUpdateField});
    }
    std::vector<TreeSink> sinks(commands.size(), TreeSink(Item::kArray));
    for (size_t i = 0; i < commands.size(); ++i) commands[i].sink = &sinks[i];
    DPI_RETURN_IF_ERROR(say(commands, true));
    for (const TreeSink& sink : sinks) {
      const std::vector<Reply>& said = sink.reply().items;
      PartitionUpdate update;
      if (said.size() != 2) continue;
      if (said[1].kind == Item::kText && read_partition_update(said[1].text, &update))
        *updated = *updated || update.sequence > 0;
      if (const int64_t n = partitions_of_seal(said[0].text); n > 0) partitions = n;
    }
  }
  if (partitions != t.partitions()) t.set_partitions(partitions);
  return {};
}

// Makes the record if there is none, and learns the partitions from the one that is there.
Status Store::begin(Table& t, TableRecord* record) {
  DPI_ASSIGN_OR_RETURN(*record, find_record(t, true));
  if (record->there && record->now != t.content())
    return t.error(Code::kInvalidArgument, "content " + t.content().substr(0, 12) + "... has become " +
                                               record->now.substr(0, 12) +
                                               "... by updates; drop it by that bundle first");
  if (record->lost) return t.error(Code::kIo, kRecordLost);
  if (!record->there) {
    bool updated = false;
    DPI_RETURN_IF_ERROR(adopt_partitions(t, &updated));
    if (updated) return t.error(Code::kIo, kRecordLost);
    record->there = true;
    record->partitions = t.partitions();
    record->fence = first_fence();
    DPI_RETURN_IF_ERROR(write_record(t, *record));
  }
  if (t.partitions() != record->partitions) t.set_partitions(record->partitions);
  return {};
}

Status Store::write(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n,
                    uint64_t digest) {
  DPI_ASSIGN_OR_RETURN(Table* const t, to_write(table));
  TableRecord record;
  if (Status s = begin(*t, &record); !s.ok()) return within(std::move(s), *t);
  if (record.complete) return within(t->error(Code::kInvalidArgument, "is complete; drop it first"), *t);
  if (n < 0 || n > t->rows() - record.written)
    return within(t->error(Code::kInvalidArgument, "more rows than it has"), *t);
  const int64_t step = std::max<int64_t>(1, kBlockBytes / (t->row_bytes() + 32));
  for (int64_t first = 0; first < n; first += step) {
    Status s = write_block(*t, keys + first, rows + first * t->row_bytes(), std::min(step, n - first),
                           t->row_bytes());
    if (!s.ok()) return within(std::move(s), *t);
  }
  record.written += n;
  record.digest = digest;
  Status s = write_record(*t, record);
  return s.ok() ? s : within(std::move(s), *t);
}

Status Store::write_block(const Table& t, const int64_t* keys, const unsigned char* values, int64_t n,
                          int64_t value_bytes) {
  std::map<int64_t, Hset> open;
  std::vector<Command> commands;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t partition = t.partition_of(keys[i]);
    Hset& h = open[partition];
    h.partition = partition;
    h.add(keys[i], values + i * value_bytes, value_bytes);
    if (h.fields.size() < kCommandBytes && h.rows < 1000) continue;
    commands.push_back(h.command(t));
    open.erase(partition);
  }
  for (const auto& [partition, h] : open) commands.push_back(h.command(t));
  std::vector<TreeSink> sinks;
  give_sinks(commands, sinks);
  return say(commands, true);
}

Status Store::each_partition(const Table& t, const std::function<std::string(int64_t)>& text) {
  for (int64_t first = 0; first < t.partitions(); first += kPartitionsAtOnce) {
    std::vector<Command> commands;
    std::vector<TreeSink> sinks;
    for (int64_t p = first; p < std::min(first + kPartitionsAtOnce, t.partitions()); ++p) {
      Command& c = commands.emplace_back();
      c.slot = t.partition_slot(p);
      c.text = text(p);
    }
    give_sinks(commands, sinks);
    DPI_RETURN_IF_ERROR(say(commands, true));
  }
  return {};
}

Status Store::complete(int32_t table) {
  DPI_ASSIGN_OR_RETURN(Table* const t, to_write(table));
  const auto work = [&]() -> Status {
    TableRecord record;
    DPI_RETURN_IF_ERROR(begin(*t, &record));
    if (record.complete) return {};
    if (record.written != t->rows())
      return t->error(Code::kInvalidArgument,
                      "has " + std::to_string(record.written) + " of " + std::to_string(t->rows()) + " rows");
    // A server that came back without its latest writes, or a key that came twice.
    DPI_ASSIGN_OR_RETURN(const int64_t rows, count_rows(*t, false, 0, true));
    if (rows != t->rows())
      return t->error(Code::kIo, "Redis has " + std::to_string(rows) + " of the " +
                                     std::to_string(t->rows()) +
                                     " rows that were written; `dpi store load` goes on");
    DPI_RETURN_IF_ERROR(each_partition(
        *t, [&](int64_t p) { return command({"HSET", t->partition_key(p), kSealField, t->seal()}); }));
    record.complete = true;
    return write_record(*t, record);
  };
  Status s = work();
  return s.ok() ? s : within(std::move(s), *t);
}

// By now the table may have become another content than when it was opened.
Status Store::stat(int32_t table, dpi_store_stat* out) {
  if (table < 0 || table >= static_cast<int32_t>(tables_.size()))
    return invalid_argument("redis: no such table");
  Table& t = tables_[static_cast<size_t>(table)];
  const auto work = [&]() -> Status {
    DPI_ASSIGN_OR_RETURN(const TableRecord r, find_record(t, false));
    std::memset(out, 0, sizeof *out);
    out->rows = r.sequence > 0 ? r.rows : r.written;
    out->bytes = -1;
    out->complete = r.complete && r.next.empty() ? 1 : 0;
    out->digest = r.digest;
    out->sequence = r.sequence;
    out->updating = r.next.empty() ? 0 : 1;
    out->newer = newer_[static_cast<size_t>(table)].load(std::memory_order_relaxed);
    copy_printable((r.there ? r.now : t.content()).c_str(), out->content, sizeof out->content);
    if (r.next.empty()) return {};
    DPI_ASSIGN_OR_RETURN(const std::string who, writer_of(t));
    copy_printable(who.c_str(), out->writer, sizeof out->writer);
    return {};
  };
  Status s = work();
  return s.ok() ? s : within(std::move(s), t);
}

Status Store::unlink(const std::string& key) {
  TreeSink sink(Item::kInteger);
  Command c;
  c.slot = slot_of(key);
  c.text = command({"UNLINK", key});
  c.sink = &sink;
  return say({&c, 1}, true);
}

Status Store::drop(int32_t table) {
  DPI_ASSIGN_OR_RETURN(Table* const t, to_write(table));
  const auto work = [&]() -> Status {
    DPI_ASSIGN_OR_RETURN(TableRecord record, find_record(*t, true));
    if (!record.there) {  // what may be left without it
      bool updated = false;
      DPI_RETURN_IF_ERROR(adopt_partitions(*t, &updated));
      DPI_RETURN_IF_ERROR(
          each_partition(*t, [&](int64_t p) { return command({"UNLINK", t->partition_key(p)}); }));
      return record.lost ? unlink(t->record_key_of(t->content())) : Status();
    }
    if (record.now != t->content() && record.next != t->content())
      return t->error(Code::kInvalidArgument, "content " + t->content().substr(0, 12) + "... has become " +
                                                  record.now.substr(0, 12) +
                                                  "... by updates; drop it by that bundle");
    if (t->partitions() != record.partitions) t->set_partitions(record.partitions);
    // Not complete from now on; the record goes last, since it says which partitions there are.
    DPI_RETURN_IF_ERROR(write_incomplete(*t));
    DPI_RETURN_IF_ERROR(
        each_partition(*t, [&](int64_t p) { return command({"UNLINK", t->partition_key(p)}); }));
    std::istringstream names(record.before + " " + record.now + " " + record.next);
    for (std::string name; names >> name;) {
      if (name != t->place()) DPI_RETURN_IF_ERROR(unlink(t->record_key_of(name)));
    }
    return unlink(t->record_key());
  };
  Status s = work();
  return s.ok() ? s : within(std::move(s), *t);
}

}  // namespace dpi::redis
