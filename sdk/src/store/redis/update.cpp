// Rows of a complete table that change in place. Redis runs a script as one step, so what a script asks and
// writes cannot be parted by another writer. A table's record and its partitions lie in different slots of a
// cluster, which no script spans; hence two scripts and a number, the fence, that ties them together:
//
//   record     one writer at a time holds the lease and gets a fence, one more than the last writer's
//   partition  keeps the fence and the sequence number of who wrote last. A new writer sets its fence in all
//              of them before it changes a row, and from then on an older one is refused everywhere, whatever
//              it had under way
//
// Changes are absolute, so a writer that was killed, or the next one, does its last block again.
#include <time.h>

#include <algorithm>
#include <sstream>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "store/redis/slots.hpp"
#include "store/redis/store.hpp"

namespace dpi::redis {
namespace {

// Record, lease; token, lease_ms (0 = give it up), fence (0 = a new one), then fields and values to be set.
constexpr std::string_view kRecordScript = R"(
local who = redis.call('GET', KEYS[2])
if who and who ~= ARGV[1] then return {'held', redis.call('PTTL', KEYS[2]), who} end
if redis.call('HGET', KEYS[1], 'complete') ~= '1' then return {'gone', 0, ''} end
local fence = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if ARGV[3] == '0' then fence = redis.call('HINCRBY', KEYS[1], 'fence', 1)
elseif tonumber(ARGV[3]) ~= fence then return {'taken', fence, ''} end
if #ARGV > 3 then redis.call('HSET', KEYS[1], unpack(ARGV, 4)) end
if ARGV[2] == '0' then redis.call('DEL', KEYS[2])
else redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2]) end
return {'ok', fence, ''}
)";

// Partition; fence, sequence, length of a value that says `gone`, then keys and values.
constexpr std::string_view kRowsScript = R"(
if redis.call('HEXISTS', KEYS[1], 'sealed') == 0 then return {'lost', 0} end
local fence, sequence, gone = 0, 0, 0
local was = redis.call('HGET', KEYS[1], 'update')
if was then
  local f, s, g = string.match(was, '^(%d+) (%d+) (%d+)$')
  fence, sequence, gone = tonumber(f), tonumber(s), tonumber(g)
end
if fence > tonumber(ARGV[1]) then return {'fenced', fence} end
if sequence > tonumber(ARGV[2]) then return {'old', sequence} end
local mark = tonumber(ARGV[3])
for i = 4, #ARGV, 2 do
  if redis.call('HSTRLEN', KEYS[1], ARGV[i]) == mark then gone = gone - 1 end
  if #ARGV[i + 1] == mark then gone = gone + 1 end
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call('HSET', KEYS[1], 'update', string.format('%s %s %d', ARGV[1], ARGV[2], gone))
return {'ok', 0}
)";

constexpr size_t kCommandBytes = 128 << 10;  // a server does nothing else while it runs one
constexpr size_t kCommandRows = 500;
constexpr int64_t kBlockBytes = 4 << 20;
constexpr int64_t kPartitionsAtOnce = 256;
constexpr size_t kNamesKept = 32;  // contents by which an updated table is still found

std::string text_of(int64_t n) { return std::to_string(n); }

std::string lease_key(const Table& t) { return t.record_key() + ":writer"; }

void append_sequence(int64_t sequence, std::string* value) {
  for (int i = 0; i < 8; ++i) *value += static_cast<char>(static_cast<uint64_t>(sequence) >> (8 * i) & 0xff);
}

void sleep_ms(int64_t ms) {
  const timespec t{ms / 1000, (ms % 1000) * 1'000'000};
  ::nanosleep(&t, nullptr);
}

// A reply {text, number, ...}.
bool is_answer(const Reply& r, size_t items) {
  return r.kind == Item::kArray && r.items.size() == items && r.items[0].kind == Item::kText &&
         r.items[1].kind == Item::kInteger;
}

}  // namespace

// Keys of one partition with their values, for one run of the script.
struct Store::Change {
  int64_t partition = 0;
  size_t rows = 0;
  std::string fields;

  void add(int64_t key, std::string_view value) {
    append_argument(fields, Field(key).view());
    append_argument(fields, value);
    ++rows;
  }
  /// script: its hash, or the whole of it.
  std::string text(const Table& t, const Update& u, bool by_hash, std::string_view script) const {
    std::string out;
    append_count(out, 7 + 2 * rows);
    append_argument(out, by_hash ? "EVALSHA" : "EVAL");
    append_argument(out, script);
    append_argument(out, "1");
    append_argument(out, t.partition_key(partition));
    append_argument(out, text_of(u.fence));
    append_argument(out, text_of(u.sequence));
    append_argument(out, text_of(static_cast<int64_t>(t.gone_bytes())));
    return out + fields;
  }
};

Status Store::ask_record(const Table& t, int64_t fence, uint64_t lease_ms,
                         const std::vector<std::string>& fields, Reply* reply) {
  std::string text;
  append_count(text, 8 + fields.size());
  for (const std::string& a :
       {std::string("EVAL"), std::string(kRecordScript), std::string("2"), t.record_key(), lease_key(t),
        token_, std::to_string(lease_ms), text_of(fence)})
    append_argument(text, a);
  for (const std::string& f : fields) append_argument(text, f);
  TreeSink sink(Item::kArray);
  Command c;
  c.slot = slot_of(t.record_key());
  c.text = std::move(text);
  c.sink = &sink;
  DPI_RETURN_IF_ERROR(say({&c, 1}, true));
  *reply = sink.reply();
  return is_answer(*reply, 3) ? Status() : t.error(Code::kIo, "an answer of the script that is none");
}

// Waits for a writer that says nothing any more, not longer than a lease runs.
Status Store::take_lease(const Table& t, int64_t* fence) {
  const uint64_t lease = cluster_.settings().lease_ns;
  const uint64_t until = monotonic_ns() + lease + lease / 2;
  for (int64_t left = -1;;) {
    Reply r;
    DPI_RETURN_IF_ERROR(ask_record(t, 0, lease / 1'000'000, {}, &r));
    *fence = r.items[1].value;
    if (r.items[0].text == "ok") return {};
    if (r.items[0].text != "held") return t.error(Code::kNotFound, "is not there or not complete");
    const bool alive = left >= 0 && *fence > left;  // it has renewed its lease
    left = *fence;
    if (alive || monotonic_ns() >= until)
      return t.error(Code::kIo, "is being updated by " + r.items[2].text + ", whose lease ends in " +
                                    text_of(left) + " ms unless it is renewed; one writer at a time");
    sleep_ms(std::clamp<int64_t>(left, 1, 50));
  }
}

// Of the writer that has the lease; renews it.
Status Store::put_record(const Table& t, int64_t fence, uint64_t lease_ms,
                         const std::vector<std::string>& fields) {
  Reply r;
  DPI_RETURN_IF_ERROR(ask_record(t, fence, lease_ms, fields, &r));
  const std::string& said = r.items[0].text;
  if (said == "ok") return {};
  if (said == "gone") return t.error(Code::kNotFound, "was dropped while it was updated");
  const std::string who = said == "held" ? r.items[2].text : "writer " + text_of(r.items[1].value);
  return t.error(Code::kClosed, who + " has taken over the update; this one ends");
}

Result<std::string> Store::writer_of(const Table& t) {
  TreeSink sink(Item::kText);
  Command c;
  c.slot = slot_of(t.record_key());
  c.text = command({"GET", lease_key(t)});
  c.sink = &sink;
  DPI_RETURN_IF_ERROR(say({&c, 1}, false));
  return sink.reply().text;
}

// What the table is, against what the update starts from. *had: it has been `next` already.
Status Store::check_step(const Table& t, const Table& next, const TableRecord& r, bool* had) {
  if (!r.there || !r.complete) return t.error(Code::kNotFound, "is not there or not complete; load it first");
  if (r.now == t.content()) {
    if (r.next.empty() || r.next == next.content()) return {};
    return t.error(Code::kBadModel, "is becoming " + r.next.substr(0, 12) +
                                        "... by another update, which has not ended; give that delta first");
  }
  *had =
      r.now == next.content() || (" " + r.before + " ").find(" " + next.content() + " ") != std::string::npos;
  if (*had) return {};
  return t.error(Code::kBadModel, "is content " + r.now.substr(0, 12) + "... of update " +
                                      text_of(r.sequence) + ", the update starts from " +
                                      t.content().substr(0, 12) + "...");
}

Status Store::begin_update(int32_t table, const dpi_store_table& described, uint64_t id, int64_t* done) {
  if (!updates_ || table < 0 || table >= static_cast<int32_t>(tables_.size()))
    return invalid_argument("redis: no table that is open for updates");
  Table& t = tables_[static_cast<size_t>(table)];
  const auto work = [&]() -> Status {
    DPI_ASSIGN_OR_RETURN(Table next, Table::make(described));
    DPI_ASSIGN_OR_RETURN(TableRecord r, find_record(t, true));
    bool had = false;
    DPI_RETURN_IF_ERROR(check_step(t, next, r, &had));
    *done = -1;
    if (had) return r.now == next.content() ? restore_alias(t, next, r.sequence) : Status();
    Table other = next;  // loaded by its own bundle?
    DPI_ASSIGN_OR_RETURN(const TableRecord there, record_of(other, true));
    if (there.there && there.at.empty() && other.content() != t.place())
      return t.error(Code::kInvalidArgument, "content " + next.content().substr(0, 12) +
                                                 "... was loaded beside it; drop one of the two first");
    Update u{std::move(next)};
    DPI_RETURN_IF_ERROR(take_lease(t, &u.fence));
    DPI_ASSIGN_OR_RETURN(r, find_record(t, true));  // as no other writer changes it from now on
    DPI_RETURN_IF_ERROR(check_step(t, u.next, r, &had));
    const uint64_t lease_ms = cluster_.settings().lease_ns / 1'000'000;
    if (had) return put_record(t, u.fence, 0, {});
    t.set_partitions(r.partitions);
    u.sequence = r.sequence + 1;
    *done = r.next.empty() || r.update != id ? 0 : r.done;
    // Readers are told before the first row changes.
    DPI_RETURN_IF_ERROR(put_record(t, u.fence, lease_ms,
                                   {"next", u.next.content(), "next_rows", text_of(u.next.rows()), "done",
                                    text_of(*done), "update", hex_text(id).substr(2)}));
    DPI_RETURN_IF_ERROR(fence_partitions(t, u));
    under_way_[static_cast<size_t>(table)].emplace(std::move(u));
    return {};
  };
  Status s = work();
  return s.ok() ? s : within(std::move(s), t);
}

Status Store::fence_partitions(const Table& t, const Update& u) {
  if (script_.empty()) {
    TreeSink sink(Item::kText);
    Command c;
    c.slot = slot_of(t.record_key());
    c.text = command({"SCRIPT", "LOAD", kRowsScript});
    c.sink = &sink;
    DPI_RETURN_IF_ERROR(say({&c, 1}, true));
    script_ = sink.reply().text;
  }
  for (int64_t first = 0; first < t.partitions(); first += kPartitionsAtOnce) {
    std::vector<Change> none;
    for (int64_t p = first; p < std::min(first + kPartitionsAtOnce, t.partitions()); ++p)
      none.push_back({p, 0, {}});
    DPI_RETURN_IF_ERROR(change(t, u, none));
  }
  return {};
}

// By the script's hash; in whole where a server does not know it yet, which does no change twice that counts.
Status Store::change(const Table& t, const Update& u, const std::vector<Change>& changes) {
  Status s;
  for (const bool by_hash : {true, false}) {
    std::vector<Command> commands(changes.size());
    std::vector<TreeSink> sinks(changes.size(), TreeSink(Item::kArray));
    for (size_t i = 0; i < changes.size(); ++i) {
      commands[i].slot = t.partition_slot(changes[i].partition);
      commands[i].text = changes[i].text(t, u, by_hash, by_hash ? std::string_view(script_) : kRowsScript);
      commands[i].sink = &sinks[i];
    }
    s = say(commands, true);
    if (!s.ok() && by_hash && s.message().find("NOSCRIPT") != std::string::npos) continue;
    DPI_RETURN_IF_ERROR(std::move(s));
    for (const TreeSink& sink : sinks) DPI_RETURN_IF_ERROR(check_changed(t, u, sink.reply()));
    return {};
  }
  return s;
}

Status Store::check_changed(const Table& t, const Update& u, const Reply& reply) {
  if (!is_answer(reply, 2)) return t.error(Code::kIo, "an answer of the script that is none");
  const std::string& said = reply.items[0].text;
  const std::string number = text_of(reply.items[1].value);
  if (said == "ok") return {};
  if (said == "old")
    return t.error(Code::kClosed, "rows of update " + text_of(u.sequence) + " come after those of update " +
                                      number + "; nothing was changed");
  if (said == "fenced") {
    DPI_ASSIGN_OR_RETURN(const std::string who, writer_of(t));
    return t.error(Code::kClosed, (who.empty() ? "writer " + number : who) +
                                      " has taken over the update; nothing was changed");
  }
  return t.error(Code::kIo,
                 "a partition is gone: it was evicted, or a server came back without its data; `dpi store "
                 "load` of the bundle that the delta starts from writes it again, then give the delta again");
}

Result<Store::Update*> Store::to_change(int32_t table) {
  if (table < 0 || table >= static_cast<int32_t>(tables_.size()) ||
      !under_way_[static_cast<size_t>(table)].has_value())
    return invalid_argument("redis: no update of that table has begun");
  return &*under_way_[static_cast<size_t>(table)];
}

Status Store::update(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n, int64_t done) {
  DPI_ASSIGN_OR_RETURN(Update* const u, to_change(table));
  const Table& t = tables_[static_cast<size_t>(table)];
  const auto row_bytes = static_cast<size_t>(t.row_bytes());
  std::string value;
  const auto block = [&](int64_t first, int64_t last) {
    std::map<int64_t, Change> open;
    std::vector<Change> changes;
    for (int64_t i = first; i < last; ++i) {
      value.clear();
      if (rows != nullptr)
        value.assign(reinterpret_cast<const char*>(rows) + row_bytes * static_cast<size_t>(i), row_bytes);
      append_sequence(u->sequence, &value);
      if (rows == nullptr) value.resize(t.gone_bytes());
      const int64_t partition = t.partition_of(keys[i]);
      Change& c = open[partition];
      c.partition = partition;
      c.add(keys[i], value);
      if (c.rows < kCommandRows && c.fields.size() < kCommandBytes) continue;
      changes.push_back(std::move(c));
      open.erase(partition);
    }
    for (auto& [partition, c] : open) changes.push_back(std::move(c));
    return change(t, *u, changes);
  };
  const int64_t step = std::max<int64_t>(1, kBlockBytes / (t.row_bytes() + 48));
  Status s;
  for (int64_t first = 0; s.ok() && first < n; first += step) s = block(first, std::min(n, first + step));
  const uint64_t lease_ms = cluster_.settings().lease_ns / 1'000'000;
  if (s.ok()) s = put_record(t, u->fence, lease_ms, {"done", text_of(done)});
  return s.ok() ? s : within(std::move(s), t);
}

// A table that goes back to what it was loaded as is found by its own record.
Status Store::write_alias(const Table& t, const Table& next, int64_t sequence) {
  if (next.content() == t.place()) return {};
  TreeSink sink(Item::kInteger);
  Command c;
  c.slot = slot_of(next.record_key());
  c.text = next.write_alias(t.place(), sequence);
  c.sink = &sink;
  return say({&c, 1}, true);
}

// The name by which an updated table is found is a key of its own, which may be evicted alone.
Status Store::restore_alias(const Table& t, const Table& next, int64_t sequence) {
  DPI_ASSIGN_OR_RETURN(const TableRecord there, record_of(next, true));
  return there.there ? Status() : write_alias(t, next, sequence);
}

Status Store::end_update(int32_t table) {
  DPI_ASSIGN_OR_RETURN(Update* const u, to_change(table));
  Table& t = tables_[static_cast<size_t>(table)];
  const auto work = [&]() -> Status {
    DPI_ASSIGN_OR_RETURN(const TableRecord r, find_record(t, true));
    DPI_ASSIGN_OR_RETURN(const int64_t rows, count_rows(t, true, u->sequence, true));
    if (rows != u->next.rows())
      return t.error(Code::kIo, "Redis has " + text_of(rows) + " rows after the update, expected " +
                                    text_of(u->next.rows()) + "; drop it and load it again");
    DPI_RETURN_IF_ERROR(put_record(t, u->fence, cluster_.settings().lease_ns / 1'000'000, {}));
    DPI_RETURN_IF_ERROR(write_alias(t, u->next, u->sequence));
    std::vector<std::string> names;
    std::istringstream before(r.before + " " + r.now);
    for (std::string name; before >> name;) {
      if (name != u->next.content()) names.push_back(name);
    }
    const size_t gone = names.size() > kNamesKept ? names.size() - kNamesKept : 0;
    std::string kept;
    for (size_t i = gone; i < names.size(); ++i) kept += (kept.empty() ? "" : " ") + names[i];
    for (size_t i = 0; i < gone; ++i) {
      if (names[i] != t.place()) DPI_RETURN_IF_ERROR(unlink(t.record_key_of(names[i])));
    }
    return put_record(t, u->fence, 0,
                      {"sequence", text_of(u->sequence), "now", u->next.content(), "now_rows",
                       text_of(u->next.rows()), "before", kept, "next", "", "next_rows", "0", "done", "0"});
  };
  Status s = work();
  if (!s.ok()) return within(std::move(s), t);
  under_way_[static_cast<size_t>(table)].reset();
  return {};
}

}  // namespace dpi::redis
