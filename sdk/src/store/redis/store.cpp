#include "store/redis/store.hpp"

#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "base/seeded_hash.hpp"
#include "base/text.hpp"

namespace dpi::redis {
namespace {

constexpr int64_t kPartitionsAtOnce = 2048;

const char kLoadIt[] = "load it with `dpi store load`";

/// "HOST process PID RANDOM": what a refused writer is told, unlike any other one's.
std::string make_token() {
  char host[65] = "?";
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '?';
  return printable(host) + " process " + std::to_string(getpid()) + " " + hex_text(random_seed()).substr(2);
}

}  // namespace

const char kRepairIt[] = "`dpi store load` of the bundle with that content writes them again";

const char kRecordLost[] =
    "its rows have had updates, and its record, which says which, is lost: take the table away with `dpi "
    "store "
    "drop`, then load the bundle that has all deltas";

const char kUpdatedHint[] =
    "; load the model of the table's version, or accept rows of later versions with option "
    "table.NAME.update=stale";

Store::Store(Settings settings, bool writes)
    : cluster_(std::move(settings)), writes_(writes), token_(make_token()) {}

Result<std::unique_ptr<Store>> Store::open(const dpi_store_options& options, const dpi_store_table* tables,
                                           int32_t n_tables) {
  DPI_ASSIGN_OR_RETURN(Settings settings, parse_settings(options));
  std::unique_ptr<Store> s(
      new Store(std::move(settings), options.mode == DPI_STORE_WRITE || options.mode == DPI_STORE_UPDATE));
  s->updates_ = options.mode == DPI_STORE_UPDATE;
  s->looks_ = options.mode == DPI_STORE_LOOK;
  s->under_way_.resize(static_cast<size_t>(n_tables));
  s->repairs_.resize(static_cast<size_t>(n_tables));
  s->newer_ = std::make_unique<std::atomic<int64_t>[]>(static_cast<size_t>(n_tables));
  for (int32_t i = 0; i < n_tables; ++i) {
    DPI_ASSIGN_OR_RETURN(Table t, Table::make(tables[i]));
    s->tables_.push_back(std::move(t));
  }
  DPI_RETURN_IF_ERROR(s->cluster_.connect());
  if (s->writes_) return s;
  for (Table& t : s->tables_) {
    Status bad = s->looks_ ? s->check_for_looking(t) : s->check_for_reading(t);
    if (!bad.ok()) return s->within(std::move(bad), t);
  }
  return s;
}

// Every text names a server and the table.
Status Store::within(Status s, const Table& t) const {
  const std::string place = "redis " + cluster_.settings().seeds[0].text();
  if (!s.message().starts_with("redis")) return std::move(s).within(place);
  if (s.message().find("table " + in_quotes(t.name())) != std::string::npos) return s;
  return Status(s.code(), s.message() + " (table " + in_quotes(t.name()) + ")").native(s.native_code());
}

Status Store::within_partition(Status s, const Table& t, int64_t partition) const {
  if (s.ok()) return s;
  const std::shared_ptr<const Topology> topology = cluster_.topology();
  const int32_t owner =
      topology->cluster ? topology->owner[static_cast<size_t>(t.partition_slot(partition))] : -1;
  if (owner < 0) return s;
  return std::move(s).within("redis " + topology->nodes[static_cast<size_t>(owner)]->address().text());
}

Status Store::say(std::span<Command> commands, bool patient) {
  const Settings& s = cluster_.settings();
  Exchange exchange(cluster_, monotonic_ns() + (patient ? s.write_timeout_ns : s.timeout_ns), patient);
  if (writes_) exchange.wait_for_replicas(s.write_replicas);
  return exchange.run(commands);
}

int64_t Store::masters() const {
  const auto t = cluster_.topology();
  const std::set<int32_t> owners(t->owner.begin(), t->owner.end());
  return std::max<int64_t>(1, static_cast<int64_t>(owners.size() - owners.count(-1)));
}

Result<TableRecord> Store::record_of(const Table& t, bool patient) {
  TreeSink sink(Item::kArray);
  Command c;
  c.slot = slot_of(t.record_key());
  c.text = command({"HGETALL", t.record_key()});
  c.sink = &sink;
  DPI_RETURN_IF_ERROR(say({&c, 1}, patient));
  return t.read_record(sink.reply());
}

Result<TableRecord> Store::find_record(Table& t, bool patient) {
  DPI_ASSIGN_OR_RETURN(TableRecord record, record_of(t, patient));
  if (!record.at.empty()) {
    t.set_place(record.at);
    t.set_sequence(record.sequence);
    DPI_ASSIGN_OR_RETURN(record, record_of(t, patient));
  }
  record.lost = !record.there && t.place() != t.content();
  return record;
}

// The error for a table without a record at its place.
Status Store::absent(const Table& t, const TableRecord& record) {
  const std::string evicts = why_lost(slot_of(t.record_key()));
  if (record.lost) return t.error(Code::kIo, kRecordLost + evicts);
  return t.error(Code::kNotFound, "is not there as content " + t.content().substr(0, 12) + "...; " + kLoadIt +
                                      ". If updates made it so and its name was evicted, " +
                                      "`dpi store update` with the last delta finds it again" + evicts);
}

Status Store::check_for_looking(Table& t) {
  DPI_ASSIGN_OR_RETURN(const TableRecord record, find_record(t, false));
  if (!record.there) return absent(t, record);
  t.set_partitions(record.partitions);
  return {};
}

Status Store::check_for_reading(Table& t) {
  DPI_ASSIGN_OR_RETURN(const TableRecord record, find_record(t, false));
  if (!record.there) return absent(t, record);
  if (!record.complete)
    return t.error(Code::kNotFound, "has " + std::to_string(record.written) + " of " +
                                        std::to_string(t.rows()) + " rows and is not complete; " + kLoadIt +
                                        ", which goes on where it was");
  DPI_RETURN_IF_ERROR(check_now(t, record));
  t.set_partitions(record.partitions);
  const bool quiet = record.next.empty();
  DPI_ASSIGN_OR_RETURN(const int64_t rows, count_rows(t, true, quiet ? record.sequence : 0, false));
  if (rows == record.rows || !quiet) return {};
  return t.error(Code::kIo, "has " + std::to_string(rows) + " of " + std::to_string(record.rows) +
                                " rows: some were lost; " + kRepairIt);
}

// Is the table what the reader asked for, or may it be what it is?
Status Store::check_now(Table& t, const TableRecord& record) {
  const std::string now = record.now.substr(0, 12) + "... by update " + std::to_string(record.sequence);
  if (record.now == t.content()) {
    t.set_sequence(record.sequence);
    if (record.next.empty() || t.stale()) return {};
    return t.error(Code::kNotFound, "content " + now + ", is becoming " + record.next.substr(0, 12) +
                                        "... and not whole; `dpi store update` ends it" + kUpdatedHint);
  }
  if (t.stale() && t.sequence() <= record.sequence) return {};
  return t.error(Code::kNotFound, "content " + t.content().substr(0, 12) + "... of update " +
                                      std::to_string(t.sequence()) + " has become " + now + kUpdatedHint);
}

Result<std::vector<Store::Part>> Store::look_at_parts(const Table& t, bool patient) {
  std::vector<Part> parts(static_cast<size_t>(t.partitions()));
  for (int64_t first = 0; first < t.partitions(); first += kPartitionsAtOnce) {
    const int64_t n = std::min(kPartitionsAtOnce, t.partitions() - first);
    std::vector<TreeSink> sinks;
    sinks.reserve(static_cast<size_t>(2 * n));
    std::vector<Command> commands(static_cast<size_t>(2 * n));
    for (size_t i = 0; i < commands.size(); ++i) {
      const int64_t p = first + static_cast<int64_t>(i / 2);
      const std::string key = t.partition_key(p);
      commands[i].slot = t.partition_slot(p);
      commands[i].text =
          i % 2 == 0 ? command({"HLEN", key}) : command({"HMGET", key, kSealField, kUpdateField});
      commands[i].sink = &sinks.emplace_back(i % 2 == 0 ? Item::kInteger : Item::kArray);
    }
    DPI_RETURN_IF_ERROR(say(commands, patient));
    for (size_t i = 0; i < commands.size(); i += 2) {
      Part& part = parts[static_cast<size_t>(first) + i / 2];
      const std::vector<Reply>& said = sinks[i + 1].reply().items;
      const bool seal = said.size() == 2 && said[0].kind == Item::kText;
      const bool updated = said.size() == 2 && said[1].kind == Item::kText;
      if (seal) part.sealed = t.sealed_at(said[0].text);
      if (updated && !read_partition_update(said[1].text, &part.update)) part.sealed = -1;
      part.rows = sinks[i].reply().value - (seal ? 1 : 0) - (updated ? 1 : 0) - part.update.gone;
    }
  }
  return parts;
}

Result<int64_t> Store::count_rows(const Table& t, bool sealed, int64_t sequence, bool patient) {
  DPI_ASSIGN_OR_RETURN(const std::vector<Part> parts, look_at_parts(t, patient));
  int64_t rows = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    if (sealed && (parts[p].sealed < 0 || parts[p].update.sequence < sequence))
      return within_partition(
          t.error(Code::kIo, "partition " + std::to_string(p) + " is gone or not whole; " + kRepairIt), t,
          static_cast<int64_t>(p));
    rows += parts[p].rows;
  }
  return rows;
}

}  // namespace dpi::redis
