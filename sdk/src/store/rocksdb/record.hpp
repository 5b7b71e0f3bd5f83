// What the directory says of a table: one record in the default column family, under the name of the column
// family that has the table's rows. Rows and the record that counts them are written in one batch, so the two
// never disagree, wherever a writer was killed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "store/abi/dpi_store.h"

namespace dpi::rocks {

/// dpi_store_table with memory of its own.
struct TableSpec {
  explicit TableSpec(const dpi_store_table& t);

  std::string name, content;
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int32_t dim = 0;
  int32_t dtype = 0;
  bool keyed = false;

  /// "rows/<content>/<name>": tables of other content, or of another name, are others.
  std::string family() const { return "rows/" + content + "/" + name; }
};

/// kInvalidArgument: what no table can be.
Status check_spec(const TableSpec& spec);

struct Record {
  int64_t rows = 0;
  int64_t row_bytes = 0;
  int32_t dim = 0;
  int32_t dtype = 0;
  int32_t keyed = 0;
  int32_t complete = 0;
  int64_t done = 0;
  uint64_t digest = 0;
};

Record begun(const TableSpec& spec);

/// 56 bytes, little-endian, behind a version.
std::string encode(const Record& record);
std::optional<Record> decode(std::string_view bytes);

/// kBadModel when the record is of a table of another shape.
Status check_shape(const TableSpec& spec, const Record& record);

/// A row's key in RocksDB: 8 bytes, the highest first, so that files are in the order of row numbers.
inline void encode_key(int64_t key, char* to) {
  const auto k = static_cast<uint64_t>(key);
  for (int i = 0; i < 8; ++i) to[i] = static_cast<char>(k >> (56 - 8 * i));
}

}  // namespace dpi::rocks
