// The record of a table: it stands in the default column family, under the name of the column family that has
// the table's rows. Rows and the record that counts them are written in one batch, so the two never disagree,
// wherever a writer was killed.
#pragma once

#include <cstdint>
#include <cstring>
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

  std::string place;  // the content that its family is called by: another one when it was updated
  bool stale = false;

  /// "rows/<content>/<name>": tables of other content, or of another name, are others.
  std::string family() const { return "rows/" + place + "/" + name; }
  /// Under which a table that has become `content` says where it lies.
  std::string alias() const { return "rows/" + content + "/" + name; }
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

/// The effect of updates on a table. Without any, all fields are 0.
struct Updates {
  int64_t sequence = 0;  // updates that it has had whole
  int64_t entries = 0;   // of its files: rows, rows over them, and keys that are gone
  int64_t rows = 0;
  int64_t next_rows = 0;
  int64_t done = 0;  // changes of the one under way
  uint64_t id = 0;   // of the one under way
  char now[64] = {};
  char next[64] = {};  // begins with 0: none is under way
};

/// Where a table lies that has become another content by update `sequence`.
struct Alias {
  int64_t sequence = 0;
  char place[64] = {};
};

Record begun(const TableSpec& spec);

/// 56 bytes, little-endian, behind a version; of a table that was updated what is known of that follows.
std::string encode(const Record& record, const Updates& updates);
bool decode(std::string_view bytes, Record* record, Updates* updates);
std::string encode(const Alias& alias);
std::optional<Alias> decode_alias(std::string_view bytes);
inline std::string text_of(const char (&content)[64]) { return {content, strnlen(content, sizeof content)}; }

/// kBadModel when the record is of a table of another shape.
Status check_shape(const TableSpec& spec, const Record& record, const Updates& updates);

/// A row's key in RocksDB: 8 bytes, the highest first, so that files are in the order of row numbers.
inline void encode_key(int64_t key, char* to) {
  const auto k = static_cast<uint64_t>(key);
  for (int i = 0; i < 8; ++i) to[i] = static_cast<char>(k >> (56 - 8 * i));
}

}  // namespace dpi::rocks
