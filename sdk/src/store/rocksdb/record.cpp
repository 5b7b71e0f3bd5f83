#include "store/rocksdb/record.hpp"

#include <bit>
#include <cstring>

namespace dpi::rocks {
namespace {

static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(Record) == 48);

constexpr char kVersion[8] = {'D', 'P', 'I', 'T', 'A', 'B', '0', '1'};

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
      keyed(t.keyed != 0) {}

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

std::string encode(const Record& record) {
  std::string bytes(kVersion, sizeof(kVersion));
  bytes.append(reinterpret_cast<const char*>(&record), sizeof(record));
  return bytes;
}

std::optional<Record> decode(std::string_view bytes) {
  Record record;
  if (bytes.size() != sizeof(kVersion) + sizeof(record)) return std::nullopt;
  if (std::memcmp(bytes.data(), kVersion, sizeof(kVersion)) != 0) return std::nullopt;
  std::memcpy(&record, bytes.data() + sizeof(kVersion), sizeof(record));
  return record;
}

Status check_shape(const TableSpec& spec, const Record& r) {
  if (r.rows == spec.rows && r.row_bytes == spec.row_bytes && r.dim == spec.dim && r.dtype == spec.dtype &&
      (r.keyed != 0) == spec.keyed) {
    return {};
  }
  return bad_model("holds " + shape(r.rows, r.dim, r.dtype, r.row_bytes, r.keyed != 0) + ", expected " +
                   shape(spec.rows, spec.dim, spec.dtype, spec.row_bytes, spec.keyed));
}

}  // namespace dpi::rocks
