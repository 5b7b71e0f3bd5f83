// Rows that Redis has lost, written again while others read the table. Redis evicts and loses whole keys, so
// what is lost is partitions: their seals are gone with them. Whoever reads gets rows as soon as they are
// there, and believes that a key is absent only once the seal is there again, which is written last.
//
// Rows of a table that was updated are written as those of its last update, so that a reader of an older
// content is told, as by any changed row. The repair holds the lease of an update: no rows change meanwhile.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "store/redis/slots.hpp"
#include "store/redis/store.hpp"

namespace dpi::redis {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;
constexpr size_t kNamedParts = 12;

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

// Does the server of a partition evict? Whoever may not ask (ACL) goes without.
std::string Store::why_lost(const Table& t, int64_t part) {
  TreeSink sink(Item::kText);
  Command c;
  c.slot = t.partition_slot(part);
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
    what += why_lost(t, lost.empty() ? 0 : lost[0]);
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
    if (r->lost.empty()) {
      for (size_t p = 0; p < r->parts.size(); ++p) r->lost.push_back(part_is_lost(*r, p));
    }
    return write_lost(t, *r, keys, rows, n);
  };
  Status s = work();
  return s.ok() ? s : within(std::move(s), t);
}

Status Store::write_lost(const Table& t, const Repair& r, const int64_t* keys, const unsigned char* rows,
                         int64_t n) {
  const int64_t sequence = r.record.sequence;
  const int64_t bytes = t.row_bytes() + (sequence > 0 ? static_cast<int64_t>(kSequenceBytes) : 0);
  std::vector<int64_t> some;
  std::vector<unsigned char> values;
  const auto write = [&]() -> Status {
    const auto count = static_cast<int64_t>(some.size());
    DPI_RETURN_IF_ERROR(write_block(t, some.data(), values.data(), count, bytes));
    some.clear();
    values.clear();
    return {};
  };
  for (int64_t i = 0; i < n; ++i) {
    if (!r.lost[static_cast<size_t>(t.partition_of(keys[i]))]) continue;
    some.push_back(keys[i]);
    values.insert(values.end(), rows + i * t.row_bytes(), rows + (i + 1) * t.row_bytes());
    for (size_t b = 0; sequence > 0 && b < kSequenceBytes; ++b)
      values.push_back(static_cast<unsigned char>(static_cast<uint64_t>(sequence) >> (8 * b) & 0xff));
    if (static_cast<int64_t>(values.size()) >= kBlockBytes) DPI_RETURN_IF_ERROR(write());
  }
  return some.empty() ? Status() : write();
}

// With the fence, so that a writer whose lease has run out is refused there too.
Status Store::seal_repaired(const Table& t, const Repair& r) {
  std::vector<Command> commands;
  const int64_t sequence = r.record.sequence;
  for (size_t p = 0; p < r.lost.size(); ++p) {
    if (!r.lost[p]) continue;
    const auto at = static_cast<int64_t>(p);
    Command& c = commands.emplace_back();
    c.slot = t.partition_slot(at);
    c.text = command({"HSET", t.partition_key(at), kSealField, t.seal(sequence), kUpdateField,
                      std::to_string(r.fence) + " " + std::to_string(sequence) + " " +
                          std::to_string(r.parts[p].update.gone)});
  }
  std::vector<TreeSink> sinks(commands.size(), TreeSink(Item::kInteger));
  for (size_t i = 0; i < commands.size(); ++i) commands[i].sink = &sinks[i];
  return commands.empty() ? Status() : say(commands, true);
}

Status Store::check_repaired(const Table& t, const Repair& r, const std::vector<Part>& parts) {
  for (size_t p = 0; p < parts.size(); ++p) {
    const bool whole = !r.lost[p] && !r.record.next.empty();  // amid an update
    if (whole || parts[p].rows == r.expected[p]) continue;
    const std::string has = "partition " + std::to_string(p) + " has " + std::to_string(parts[p].rows) +
                            " rows after the repair, the bundle has " + std::to_string(r.expected[p]);
    if (parts[p].rows > r.expected[p])
      return t.error(Code::kIo, has + "; take the table away with `dpi store drop` and load it again");
    return t.error(Code::kIo,
                   has + ": Redis loses rows as they are written" + why_lost(t, static_cast<int64_t>(p)));
  }
  return {};
}

Status Store::end_repair(int32_t table) {
  DPI_ASSIGN_OR_RETURN(Repair* const r, to_repair(table));
  const Table& t = tables_[static_cast<size_t>(table)];
  const auto work = [&]() -> Status {
    r->lost.resize(r->parts.size(), false);  // of a table without rows
    DPI_ASSIGN_OR_RETURN(std::vector<Part> parts, look_at_parts(t, true));
    DPI_RETURN_IF_ERROR(check_repaired(t, *r, parts));
    if (!r->record.complete) return {};
    DPI_RETURN_IF_ERROR(seal_repaired(t, *r));
    DPI_ASSIGN_OR_RETURN(parts, look_at_parts(t, true));  // it may evict as it is written
    DPI_RETURN_IF_ERROR(check_repaired(t, *r, parts));
    for (size_t p = 0; p < parts.size(); ++p) {
      if (parts[p].sealed < 0)
        return t.error(Code::kIo, "partition " + std::to_string(p) + " is gone again" +
                                      why_lost(t, static_cast<int64_t>(p)));
    }
    return put_record(t, r->fence, 0, {});
  };
  Status s = work();
  repairs_[static_cast<size_t>(table)].reset();
  return s.ok() ? s : within(std::move(s), t);
}

}  // namespace dpi::redis
