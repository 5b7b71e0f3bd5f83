#include "store/redis/table.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/text.hpp"
#include "store/redis/slots.hpp"

namespace dpi::redis {
namespace {

constexpr int64_t kMostPartitions = 1 << 20;
constexpr int64_t kRowsOfPartition = 20'000;

// Part of the format, like partition_of: tables outlive processes.
uint64_t fnv1a(std::string_view text) {
  uint64_t h = 0xCBF29CE484222325ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return h;
}

template <class T>
bool read_number(const std::map<std::string, std::string>& fields, const char* name, int base, T* out) {
  const auto at = fields.find(name);
  if (at == fields.end()) return false;
  const char* end = at->second.data() + at->second.size();
  const auto [stop, error] = std::from_chars(at->second.data(), end, *out, base);
  return error == std::errc() && stop == end;
}

bool is_content(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

Result<Table> Table::make(const dpi_store_table& d) {
  Table t;
  t.name_ = d.name;
  t.content_ = d.content;
  t.rows_ = d.rows;
  t.row_bytes_ = d.row_bytes;
  t.dim_ = d.dim;
  t.dtype_ = d.dtype;
  t.keyed_ = d.keyed != 0;
  if (!is_content(t.content_)) return t.error(Code::kInvalidArgument, "its content is not 64 hex digits");
  if (d.rows < 0 || d.row_bytes < 1 || d.row_bytes > (64 << 20))
    return t.error(Code::kInvalidArgument,
                   "rows of " + std::to_string(d.row_bytes) + " bytes are not stored");
  t.stale_ = d.stale != 0;
  t.set_place(t.content_);
  return t;
}

void Table::set_place(const std::string& place) {
  place_ = place;
  prefix_ = "dpi1:{" + place + ":" + hex_text(fnv1a(name_)).substr(2) + ":";
  record_key_ = prefix_ + "table}";
}

std::string Table::record_key_of(const std::string& content) const {
  return "dpi1:{" + content + ":" + hex_text(fnv1a(name_)).substr(2) + ":table}";
}

Status Table::error(Code code, const std::string& what) const {
  return Status(code, "table " + in_quotes(name_) + ": " + what);
}

std::string Table::write_record(const TableRecord& r) const {
  const auto n = [](int64_t v) { return std::to_string(v); };
  return command({"HSET",       record_key_,
                  "name",       name_,
                  "content",    content_,
                  "dim",        n(dim_),
                  "dtype",      n(dtype_),
                  "row_bytes",  n(row_bytes_),
                  "rows",       n(rows_),
                  "keyed",      n(keyed_),
                  "partitions", n(r.partitions),
                  "written",    n(r.written),
                  "digest",     hex_text(r.digest).substr(2),
                  "complete",   n(r.complete),
                  "fence",      n(r.fence)});
}

std::string Table::write_alias(const std::string& place, int64_t sequence) const {
  const auto n = [](int64_t v) { return std::to_string(v); };
  return command({"HSET",      record_key_of(content_),
                  "name",      name_,
                  "content",   content_,
                  "dim",       n(dim_),
                  "dtype",     n(dtype_),
                  "row_bytes", n(row_bytes_),
                  "rows",      n(rows_),
                  "keyed",     n(keyed_),
                  "at",        place,
                  "sequence",  n(sequence)});
}

Result<TableRecord> Table::read_record(const Reply& reply) const {
  TableRecord r;
  if (reply.kind != Item::kArray || reply.items.size() % 2 != 0)
    return error(Code::kIo, "an answer to HGETALL that is none");
  if (reply.items.empty()) return r;
  std::map<std::string, std::string> f;
  for (size_t i = 0; i < reply.items.size(); i += 2) f[reply.items[i].text] = reply.items[i + 1].text;
  // Of the place of a table that has become another content rows are counted as those of what it is now.
  const bool moved = place_ != content_;
  const std::pair<const char*, std::string> same[] = {
      {"name", name_},
      {"content", place_},
      {"dim", std::to_string(dim_)},
      {"dtype", std::to_string(dtype_)},
      {"row_bytes", std::to_string(row_bytes_)},
      {"rows", moved ? f["rows"] : std::to_string(rows_)},
      {"keyed", keyed_ ? "1" : "0"},
  };
  for (const auto& [key, expected] : same) {
    if (f[key] != expected)
      return error(Code::kBadModel, "its " + std::string(key) + " in Redis is " + in_quotes(f[key]) +
                                        ", expected " + in_quotes(expected) +
                                        "; drop it there and load it again with `dpi store load`");
  }
  DPI_RETURN_IF_ERROR(read_numbers(f, &r));
  return r;
}

Status Table::read_numbers(const std::map<std::string, std::string>& f, TableRecord* r) const {
  const auto text = [&f](const char* name) {
    const auto at = f.find(name);
    return at == f.end() ? std::string() : at->second;
  };
  const auto optional = [&](const char* name, int base, auto* out) {
    return f.count(name) == 0 || read_number(f, name, base, out);
  };
  bool sane = optional("sequence", 10, &r->sequence) && r->sequence >= 0;
  r->at = text("at");
  r->there = sane && !r->at.empty();
  if (r->there && place_ == content_ && is_content(r->at)) return {};
  int32_t complete = 0;
  r->there = read_number(f, "partitions", 10, &r->partitions) && read_number(f, "written", 10, &r->written) &&
             read_number(f, "digest", 16, &r->digest) && read_number(f, "complete", 10, &complete) &&
             read_number(f, "rows", 10, &r->rows);
  const int64_t loaded = r->rows;
  r->complete = complete == 1;
  r->now = f.count("now") == 0 ? place_ : text("now");
  r->next = text("next");
  r->before = text("before");
  sane = sane && r->at.empty() && is_content(r->now) && (r->next.empty() || is_content(r->next)) &&
         optional("now_rows", 10, &r->rows) && optional("next_rows", 10, &r->next_rows) &&
         optional("done", 10, &r->done) && optional("update", 16, &r->update) &&
         optional("fence", 10, &r->fence) && r->rows >= 0 && r->next_rows >= 0 && r->done >= 0;
  sane = sane && r->partitions >= 1 && r->partitions <= kMostPartitions && r->written >= 0 &&
         r->written <= loaded && (!r->complete || r->written == loaded);
  if (r->there && sane) return {};
  return error(Code::kBadModel, "its record in Redis (" + record_key_ +
                                    ") is not valid; drop the table there "
                                    "and load it again with `dpi store load`");
}

void Table::set_partitions(int64_t n) {
  slots_.clear();
  for (int64_t p = 0; p < n; ++p) slots_.push_back(slot_of(partition_key(p)));
}

int64_t Table::partition_of(int64_t key) const {
  auto x = static_cast<uint64_t>(key);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  return static_cast<int64_t>((static_cast<unsigned __int128>(x) * slots_.size()) >> 64);
}

std::string Table::seal(int64_t sequence) const {
  const std::string first = "dpi1 " + std::to_string(partitions());
  return sequence == 0 ? first : first + " " + std::to_string(sequence);
}

int64_t Table::sealed_at(std::string_view text) const {
  const std::string first = seal();
  if (!text.starts_with(first)) return -1;
  text.remove_prefix(first.size());
  if (text.empty()) return 0;
  int64_t sequence = 0;
  const auto [stop, error] = std::from_chars(text.data() + 1, text.data() + text.size(), sequence);
  const bool sane = text[0] == ' ' && error == std::errc() && stop == text.data() + text.size();
  return sane && sequence > 0 ? sequence : -1;
}

std::string Table::partition_key(int64_t partition) const {
  return prefix_ + "p" + std::to_string(partition) + "}";
}

int64_t choose_partitions(int64_t rows, int64_t masters) {
  const auto parts_of = [rows](int64_t size) { return rows / size + (rows % size != 0 ? 1 : 0); };
  const int64_t spread = std::min(8 * masters, rows / 1000);
  return std::clamp<int64_t>(std::max(parts_of(kRowsOfPartition), masters > 1 ? spread : 1), 1,
                             kMostPartitions);
}

int64_t partitions_of_seal(std::string_view seal) {
  constexpr std::string_view kMark = "dpi1 ";
  int64_t n = 0;
  if (!seal.starts_with(kMark)) return 0;
  std::from_chars(seal.data() + kMark.size(), seal.data() + seal.size(), n);
  return n >= 1 && n <= kMostPartitions ? n : 0;
}

bool read_partition_update(std::string_view text, PartitionUpdate* out) {
  const char *at = text.data(), *const end = at + text.size();
  for (int64_t* number : {&out->fence, &out->sequence, &out->gone}) {
    if (number != &out->fence && (at == end || *at++ != ' ')) return false;
    const auto [stop, error] = std::from_chars(at, end, *number);
    if (error != std::errc() || *number < 0) return false;
    at = stop;
  }
  return at == end;
}

Field::Field(int64_t key) {
  auto v = static_cast<uint64_t>(key);
  for (char& b : bytes) {
    b = static_cast<char>(v & 0xff);
    v >>= 8;
  }
}

}  // namespace dpi::redis
