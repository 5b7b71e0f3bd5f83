// Rows that Redis has lost, written again while others read the table. Redis evicts and loses whole keys, so
// what is lost is partitions: their seals are gone with them. Whoever reads gets rows as soon as they are
// there, and believes that a key is absent only once the seal is there again, which is written last.
//
// Rows of a table that was updated are written as those of its last update, so that a reader of an older
// content is told, as by any changed row.
//
// A repair is a writer as an update is: it holds the lease and has a fence. Before it writes a row it claims
// the partitions that it will write: takes their seals off and sets its fence there. From then on each
// command is a script that writes only where the fence is still its own, so that a repair which was
// overtaken, by another one, by an update or by a load after a drop, changes nothing any more.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "store/redis/slots.hpp"
#include "store/redis/store.hpp"

namespace dpi::redis {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;
constexpr size_t kCommandBytes = 128 << 10;  // a server does nothing else while it runs one
constexpr size_t kCommandRows = 1000;
constexpr size_t kNamedParts = 12;

// Partition; fence, sequence, length of a value that says `gone`, step, then keys and values. A step `seal`
// has the seal's field among them.
constexpr std::string_view kRepairScript = R"(
local fence, gone = 0, 0
local was = redis.call('HGET', KEYS[1], 'update')
if was then
  local f, s, g = string.match(was, '^(%d+) (%d+) (%d+)$')
  fence, gone = tonumber(f), tonumber(g)
end
if fence > tonumber(ARGV[1]) then return {'fenced', fence} end
if ARGV[4] ~= 'claim' and fence < tonumber(ARGV[1]) then return {'lost', fence} end
local before = gone
if gone > 0 and ARGV[4] == 'rows' then
  local mark = tonumber(ARGV[3])
  for i = 5, #ARGV, 2 do
    if redis.call('HSTRLEN', KEYS[1], ARGV[i]) == mark then gone = gone - 1 end
  end
end
if ARGV[4] == 'claim' then redis.call('HDEL', KEYS[1], 'sealed') end
if #ARGV > 4 then redis.call('HSET', KEYS[1], unpack(ARGV, 5)) end
if ARGV[4] == 'claim' or gone ~= before then
  redis.call('HSET', KEYS[1], 'update', string.format('%s %s %d', ARGV[1], ARGV[2], gone))
end
return {'ok', 0}
)";

}  // namespace

/// A run of the script over one partition.
struct Store::Run {
  int64_t partition = 0;
  size_t fields = 0;
  std::string bytes;

  void add(std::string_view field, std::string_view value) {
    append_argument(bytes, field);
    append_argument(bytes, value);
    ++fields;
  }
  std::string text(const Table& t, int64_t fence, int64_t sequence, const char* step) const {
    std::string out;
    append_count(out, 8 + 2 * fields);
    for (const std::string& a :
         {std::string("EVAL"), std::string(kRepairScript), std::string("1"), t.partition_key(partition),
          std::to_string(fence), std::to_string(sequence), std::to_string(t.gone_bytes()), std::string(step)})
      append_argument(out, a);
    return out + bytes;
  }
};

namespace {

std::string named(const std::vector<int64_t>& parts, int64_t of) {
  std::string text = parts.size() == 1 ? "partition " : "partitions ";
  for (size_t i = 0; i < std::min(parts.size(), kNamedParts); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(parts[i]);
  if (parts.size() > kNamedParts) text += " and " + std::to_string(parts.size() - kNamedParts) + " more";
  return text + " of " + std::to_string(of);
}

/// The value of a line "NAME:VALUE" of INFO.
std::string info_value(const std::string& info, const std::string& name) {
  const size_t at = info.find("\n" + name + ":");
  if (at == std::string::npos) return {};
  const size_t from = at + name.size() + 2;
  return info.substr(from, info.find_first_of("\r\n", from) - from);
}

}  // namespace

// Does the server of a slot evict? Whoever may not ask (ACL) goes without.
std::string Store::why_lost(uint16_t slot) {
  TreeSink sink(Item::kText);
  Command c;
  c.slot = slot;
  c.text = command({"INFO", "memory"});
  c.sink = &sink;
  if (!say({&c, 1}, false).ok()) return {};
  const std::string policy = info_value(sink.reply().text, "maxmemory_policy");
  const std::string most = info_value(sink.reply().text, "maxmemory");
  if (policy.empty() || policy == "noeviction" || most == "0") return {};
  return "; its server evicts keys (maxmemory " + printable(most) + ", maxmemory-policy " +
         printable(policy) + "): set noeviction and enough memory";
}

Status Store::count(int32_t table, dpi_store_loss* out) {
  if (table < 0 || table >= static_cast<int32_t>(tables_.size()))
    return invalid_argument("redis: no such table");
  Table& t = tables_[static_cast<size_t>(table)];
  const auto work = [&]() -> Status {
    std::memset(out, 0, sizeof *out);
    DPI_ASSIGN_OR_RETURN(const TableRecord r, find_record(t, writes_));
    if (!r.there) return {};
    if (t.partitions() != r.partitions) t.set_partitions(r.partitions);
    DPI_ASSIGN_OR_RETURN(const std::vector<Part> parts, look_at_parts(t, writes_));
    std::vector<int64_t> lost;
    for (size_t p = 0; p < parts.size(); ++p) {
      out->rows += parts[p].rows;
      if (r.complete && parts[p].sealed < 0) lost.push_back(static_cast<int64_t>(p));
    }
    // How many rows there are amid an update is nobody's to say.
    const int64_t expected = !r.complete ? r.written : r.next.empty() ? r.rows : out->rows;
    out->missing_rows = std::max<int64_t>(0, expected - out->rows);
    out->missing_parts = static_cast<int64_t>(lost.size());
    if (lost.empty() && out->missing_rows == 0) return {};
    std::string what =
        lost.empty() ? std::to_string(out->missing_rows) + " rows" : named(lost, t.partitions());
    what += why_lost(t.partition_slot(lost.empty() ? 0 : lost[0]));
    copy_printable(what.c_str(), out->what, sizeof out->what);
    return {};
  };
  Status s = work();
  return s.ok() ? s : within(std::move(s), t);
}

Result<Store::Repair*> Store::to_repair(int32_t table) {
  if (table < 0 || table >= static_cast<int32_t>(tables_.size()) ||
      !repairs_[static_cast<size_t>(table)].has_value())
    return invalid_argument("redis: no repair of that table has begun");
  return &*repairs_[static_cast<size_t>(table)];
}

Status Store::begin_repair(int32_t table) {
  DPI_ASSIGN_OR_RETURN(Table* const t, to_write(table));
  const auto work = [&]() -> Status {
    Repair r;
    DPI_RETURN_IF_ERROR(begin(*t, &r.record));
    if (r.record.complete) {
      DPI_RETURN_IF_ERROR(take_lease(*t, &r.fence));
      DPI_RETURN_IF_ERROR(begin(*t, &r.record));  // as no other writer changes it from now on
      r.renewed_ns = monotonic_ns();
      // An update that is under way has had done what is lost: it does all its changes once more.
      const uint64_t lease_ms = cluster_.settings().lease_ns / 1'000'000;
      if (!r.record.next.empty()) DPI_RETURN_IF_ERROR(put_record(*t, r.fence, lease_ms, {"done", "0"}));
    }
    DPI_ASSIGN_OR_RETURN(r.parts, look_at_parts(*t, true));
    r.expected.assign(r.parts.size(), 0);
    repairs_[static_cast<size_t>(table)] = std::move(r);
    return {};
  };
  Status s = work();
  return s.ok() ? s : within(std::move(s), *t);
}

bool Store::part_is_lost(const Repair& r, size_t part) {
  const Part& p = r.parts[part];
  if (r.record.complete && p.sealed < 0) return true;
  // What an update has changed so far of a whole partition is not the bundle's to count.
  return r.record.next.empty() && p.rows != r.expected[part];
}

Status Store::renew(const Table& t, Repair* r) {
  const uint64_t lease_ns = cluster_.settings().lease_ns, now = monotonic_ns();
  if (!r->record.complete || now - r->renewed_ns < lease_ns / 4) return {};
  r->renewed_ns = now;
  return put_record(t, r->fence, lease_ns / 1'000'000, {});
}

Status Store::repair(int32_t table, const int64_t* keys, const unsigned char* rows, int64_t n) {
  DPI_ASSIGN_OR_RETURN(Repair* const r, to_repair(table));
  const Table& t = tables_[static_cast<size_t>(table)];
  const auto work = [&]() -> Status {
    DPI_RETURN_IF_ERROR(renew(t, r));
    if (rows == nullptr) {
      for (int64_t i = 0; i < n; ++i) ++r->expected[static_cast<size_t>(t.partition_of(keys[i]))];
      return {};
    }
    if (!r->claimed) DPI_RETURN_IF_ERROR(claim(t, r));
    if (r->record.complete) return write_lost(t, r, keys, rows, n);
    DPI_RETURN_IF_ERROR(check_incomplete(t, *r));
    return write_unfenced(t, *r, keys, rows, n);
  };
  Status s = work();
  return s.ok() ? s : within(std::move(s), t);
}

// Of the table that no record says is complete: whoever loads it holds no lease, so a repair looks whether it
// still is what it was.
Status Store::check_incomplete(const Table& t, const Repair& r) {
  DPI_ASSIGN_OR_RETURN(const TableRecord now, record_of(t, true));
  if (now.there && !now.complete && now.partitions == r.record.partitions) return {};
  return t.error(Code::kClosed, "another writer has completed or dropped it; this repair ends");
}

Status Store::run_repair(const Table& t, const Repair& r, const char* step, std::span<const Run> runs) {
  std::vector<Command> commands(runs.size());
  std::vector<TreeSink> sinks(runs.size(), TreeSink(Item::kArray));
  for (size_t i = 0; i < runs.size(); ++i) {
    commands[i].slot = t.partition_slot(runs[i].partition);
    commands[i].text = runs[i].text(t, r.fence, r.record.sequence, step);
    commands[i].sink = &sinks[i];
  }
  if (!commands.empty()) DPI_RETURN_IF_ERROR(say(commands, true));
  for (size_t i = 0; i < runs.size(); ++i) {
    const Reply& reply = sinks[i].reply();
    const std::string said = reply.items.empty() ? std::string() : reply.items[0].text;
    if (said == "ok") continue;
    const std::string which = "partition " + std::to_string(runs[i].partition);
    if (said == "fenced")
      return t.error(Code::kClosed, "another writer has taken over " + which + "; this repair ends");
    if (said == "lost")
      return t.error(Code::kIo, which + " is gone again" + why_lost(t.partition_slot(runs[i].partition)));
    return t.error(Code::kIo, "an answer of the script that is none");
  }
  return {};
}

// The seals of lost partitions go before their rows come: a repair that is killed leaves partitions that say
// that they are not whole.
Status Store::claim(const Table& t, Repair* r) {
  std::vector<bool> lost(r->parts.size(), false);
  std::vector<Run> runs;
  for (size_t p = 0; p < r->parts.size(); ++p) {
    lost[p] = part_is_lost(*r, p);
    if (!lost[p]) continue;
    if (r->parts[p].sealed >= 0 && r->parts[p].rows > r->expected[p]) return surplus(t, *r, p, r->parts[p]);
    runs.push_back({static_cast<int64_t>(p), 0, {}});
  }
  if (r->record.complete) {
    DPI_RETURN_IF_ERROR(run_repair(t, *r, "claim", runs));
    // Not by a writer who was overtaken before its claim.
    r->renewed_ns = monotonic_ns();
    DPI_RETURN_IF_ERROR(put_record(t, r->fence, cluster_.settings().lease_ns / 1'000'000, {}));
  }
  r->lost = std::move(lost);
  r->claimed = true;
  return {};
}

Status Store::write_unfenced(const Table& t, const Repair& r, const int64_t* keys, const unsigned char* rows,
                             int64_t n) {
  std::vector<int64_t> some;
  std::vector<unsigned char> values;
  for (int64_t i = 0; i < n; ++i) {
    if (r.lost[static_cast<size_t>(t.partition_of(keys[i]))]) {
      some.push_back(keys[i]);
      values.insert(values.end(), rows + i * t.row_bytes(), rows + (i + 1) * t.row_bytes());
    }
    if (some.empty() || (i + 1 < n && static_cast<int64_t>(values.size()) < kBlockBytes)) continue;
    DPI_RETURN_IF_ERROR(
        write_block(t, some.data(), values.data(), static_cast<int64_t>(some.size()), t.row_bytes()));
    some.clear();
    values.clear();
  }
  return {};
}

Status Store::write_lost(const Table& t, Repair* r, const int64_t* keys, const unsigned char* rows,
                         int64_t n) {
  const int64_t sequence = r->record.sequence;
  const auto row_bytes = static_cast<size_t>(t.row_bytes());
  std::map<int64_t, Run> open;
  std::vector<Run> full;
  int64_t bytes = 0;
  const auto write = [&]() -> Status {
    for (auto& [partition, run] : open) full.push_back(std::move(run));
    open.clear();
    bytes = 0;
    DPI_RETURN_IF_ERROR(renew(t, r));
    DPI_RETURN_IF_ERROR(run_repair(t, *r, "rows", full));
    full.clear();
    return {};
  };
  std::string value;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t partition = t.partition_of(keys[i]);
    if (!r->lost[static_cast<size_t>(partition)]) continue;
    value.assign(reinterpret_cast<const char*>(rows) + row_bytes * static_cast<size_t>(i), row_bytes);
    for (size_t b = 0; sequence > 0 && b < kSequenceBytes; ++b)
      value += static_cast<char>(static_cast<uint64_t>(sequence) >> (8 * b) & 0xff);
    Run& run = open[partition];
    run.partition = partition;
    run.add(Field(keys[i]).view(), value);
    bytes += static_cast<int64_t>(value.size()) + 32;
    if (run.fields >= kCommandRows || run.bytes.size() >= kCommandBytes) {
      full.push_back(std::move(run));
      open.erase(partition);
    }
    if (bytes >= kBlockBytes) DPI_RETURN_IF_ERROR(write());
  }
  return write();
}

Status Store::seal_repaired(const Table& t, const Repair& r) {
  std::vector<Run> runs;
  for (size_t p = 0; p < r.lost.size(); ++p) {
    if (!r.lost[p]) continue;
    runs.push_back({static_cast<int64_t>(p), 0, {}});
    runs.back().add(kSealField, t.seal(r.record.sequence));
  }
  return run_repair(t, r, "seal", runs);
}

Status Store::surplus(const Table& t, const Repair& r, size_t part, const Part& found) const {
  return t.error(Code::kIo, "partition " + std::to_string(part) + " has " + std::to_string(found.rows) +
                                " rows, the bundle has " + std::to_string(r.expected[part]) +
                                "; take the table away with `dpi store drop` and load it again");
}

Status Store::check_repaired(const Table& t, const Repair& r, const std::vector<Part>& parts) {
  for (size_t p = 0; p < parts.size(); ++p) {
    const bool whole = !r.lost[p] && !r.record.next.empty();  // amid an update
    if (whole || parts[p].rows == r.expected[p]) continue;
    if (parts[p].rows > r.expected[p]) return surplus(t, r, p, parts[p]);
    return t.error(Code::kIo, "partition " + std::to_string(p) + " has " + std::to_string(parts[p].rows) +
                                  " rows after the repair, the bundle has " + std::to_string(r.expected[p]) +
                                  ": Redis loses rows as they are written" +
                                  why_lost(t.partition_slot(static_cast<int64_t>(p))));
  }
  return {};
}

Status Store::end_repair(int32_t table) {
  DPI_ASSIGN_OR_RETURN(Repair* const r, to_repair(table));
  const Table& t = tables_[static_cast<size_t>(table)];
  const auto work = [&]() -> Status {
    if (!r->claimed) DPI_RETURN_IF_ERROR(claim(t, r));  // of a table without rows
    DPI_ASSIGN_OR_RETURN(std::vector<Part> parts, look_at_parts(t, true));
    DPI_RETURN_IF_ERROR(check_repaired(t, *r, parts));
    if (!r->record.complete) return {};
    DPI_RETURN_IF_ERROR(seal_repaired(t, *r));
    DPI_ASSIGN_OR_RETURN(parts, look_at_parts(t, true));  // it may evict as it is written
    DPI_RETURN_IF_ERROR(check_repaired(t, *r, parts));
    for (size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].sealed < 0)
        return t.error(Code::kIo, "partition " + std::to_string(p) + " is gone again" +
                                      why_lost(t.partition_slot(static_cast<int64_t>(p))));
    }
    return put_record(t, r->fence, 0, {});
  };
  Status s = work();
  repairs_[static_cast<size_t>(table)].reset();
  return s.ok() ? s : within(std::move(s), t);
}

}  // namespace dpi::redis
