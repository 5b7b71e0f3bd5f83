// A hot-key list of every row of a bundle's tables.
#pragma once

#include <string>
#include <vector>

#include "injection/stage.hpp"
#include "store/hot_keys/hot_key_writer.hpp"

namespace dpi::test {

/// What fills a tier by more rows than it holds.
inline void list_all_rows(const std::string& list, const std::string& path) {
  const auto bundle = Bundle::open(path);
  need(bundle.ok(), "the bundle");
  std::vector<HotTable> tables;
  for (size_t t = 0; t < (*bundle)->manifest().tables.size(); ++t) {
    tables.push_back(hot_table_of(**bundle, t));
    tables.back().n = tables.back().rows;
    tables.back().lookups = static_cast<uint64_t>(tables.back().rows);
  }
  const auto writer = HotKeyWriter::create(list, tables);
  need(writer.ok(), "a list");
  for (const HotTable& t : tables) {
    std::vector<HotKey> keys;
    for (int64_t row = 0; row < t.rows; ++row) keys.push_back({row, 1});
    need((*writer)->add(keys).ok(), "keys");
  }
  need((*writer)->commit().ok(), "the list");
}

}  // namespace dpi::test
