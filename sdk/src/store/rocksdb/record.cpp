#include "store/rocksdb/record.hpp"

#include <bit>
#include <cstring>

namespace dpi::rocks {
namespace {

static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(Record) == 48 && sizeof(Updates) == 176 && sizeof(Alias) == 72);

constexpr char kVersion[8] = {'D', 'P', 'I', 'T', 'A', 'B', '0', '1'};
constexpr char kUpdated[8] = {'D', 'P', 'I', 'T', 'A', 'B', '0', '2'};
constexpr char kAlias[8] = {'D', 'P', 'I', 'A', 'L', 'I', '0', '1'};

/// *out: the struct behind `mark`, if that is what the bytes are.
template <class... T>
bool read_behind(const char (&mark)[8], std::string_view bytes, T*... out) {
  if (bytes.size() != sizeof(mark) + (sizeof(T) + ...)) return false;
  if (std::memcmp(bytes.data(), mark, sizeof(mark)) != 0) return false;
  const char* at = bytes.data() + sizeof(mark);
  ((std::memcpy(out, at, sizeof(T)), at += sizeof(T)), ...);
  return true;
}

std::string shape(int64_t rows, int32_t dim, int32_t dtype, int64_t row_bytes, bool keyed) {
  return std::to_string(rows) + " rows of " + std::to_string(row_bytes) + " bytes (dim " +
         std::to_string(dim) + ", type " + std::to_string(dtype) + (keyed ? ", keyed)" : ")");
}

}  // namespace

TableSpec::TableSpec(const dpi_store_table& t)
    : name(t.name),
      content(t.content),
      rows(t.rows),
      row_bytes(t.row_bytes),
      dim(t.dim),
      dtype(t.dtype),
      keyed(t.keyed != 0),
      place(t.content),
      stale(t.stale != 0) {}

Status check_spec(const TableSpec& spec) {
  const bool hex =
      spec.content.size() == 64 && spec.content.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hex) return invalid_argument("table '" + spec.name + "': its content is not 64 hexadecimal digits");
  if (spec.rows < 0 || spec.row_bytes <= 0 || spec.row_bytes > (int64_t{1} << 24)) {
    return invalid_argument("table '" + spec.name +
                            "': " + shape(spec.rows, spec.dim, spec.dtype, spec.row_bytes, spec.keyed));
  }
  return {};
}

Record begun(const TableSpec& spec) {
  return {spec.rows, spec.row_bytes, spec.dim, spec.dtype, spec.keyed ? 1 : 0, 0, 0, 0};
}

std::string encode(const Record& record, const Updates& updates) {
  const bool updated = updates.sequence > 0 || updates.next[0] != 0;
  std::string bytes(updated ? kUpdated : kVersion, sizeof(kVersion));
  bytes.append(reinterpret_cast<const char*>(&record), sizeof(record));
  if (updated) bytes.append(reinterpret_cast<const char*>(&updates), sizeof(updates));
  return bytes;
}

bool decode(std::string_view bytes, Record* record, Updates* updates) {
  *updates = {};
  return read_behind(kVersion, bytes, record) || read_behind(kUpdated, bytes, record, updates);
}

std::string encode(const Alias& alias) {
  std::string bytes(kAlias, sizeof(kAlias));
  bytes.append(reinterpret_cast<const char*>(&alias), sizeof(alias));
  return bytes;
}

std::optional<Alias> decode_alias(std::string_view bytes) {
  Alias alias;
  if (!read_behind(kAlias, bytes, &alias)) return std::nullopt;
  return alias;
}

Status check_shape(const TableSpec& spec, const Record& r, const Updates& u) {
  const bool now = u.sequence > 0 && text_of(u.now) == spec.content;
  const bool loaded = spec.place == spec.content && r.rows == spec.rows;
  const bool rows = now ? u.rows == spec.rows : loaded || spec.place != spec.content;
  if (rows && r.row_bytes == spec.row_bytes && r.dim == spec.dim && r.dtype == spec.dtype &&
      (r.keyed != 0) == spec.keyed) {
    return {};
  }
  return bad_model("holds " + shape(now ? u.rows : r.rows, r.dim, r.dtype, r.row_bytes, r.keyed != 0) +
                   ", expected " + shape(spec.rows, spec.dim, spec.dtype, spec.row_bytes, spec.keyed));
}

}  // namespace dpi::rocks
