// What tests of repairs share: rows that a server loses, and updates of them.
#pragma once

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "store/redis/handle.hpp"
#include "store/redis/redis_server.hpp"
#include "store/redis/table.hpp"

namespace dpi::test {

inline int32_t code(Code c) { return static_cast<int32_t>(c); }
inline bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline redis::Table table_of(const KnownTable& t, int64_t partitions) {
  auto table = redis::Table::make(t.described());
  table->set_partitions(partitions);
  return std::move(table).value();
}

inline std::vector<int64_t> keys_of(const KnownTable& t, int64_t partitions, int64_t partition) {
  const redis::Table table = table_of(t, partitions);
  std::vector<int64_t> keys;
  for (const int64_t k : t.keys) {
    if (table.partition_of(k) == partition) keys.push_back(k);
  }
  return keys;
}

inline void lose(RedisServer& server, const KnownTable& t, int64_t partitions, int64_t partition) {
  REQUIRE(server.ask({"DEL", table_of(t, partitions).partition_key(partition)}) == "1");
}

inline dpi_store_loss count(const Settings& settings, const KnownTable& t) {
  Handle h;
  REQUIRE_MESSAGE(h.open(settings, {&t}, DPI_STORE_LOOK) == 0, h.message());
  dpi_store_loss loss{};
  REQUIRE_MESSAGE(h.count(0, &loss) == 0, h.message());
  return loss;
}

/// `t` with the rows of `changed` and without `gone`, as content `content`.
inline KnownTable changed(const KnownTable& t, char content, const std::vector<int64_t>& rows,
                          const std::vector<int64_t>& gone) {
  const std::set<int64_t> other(rows.begin(), rows.end()), away(gone.begin(), gone.end());
  KnownTable next = KnownTable::make(t.name, content, t.dim, 0, t.keyed, 1);
  for (const int64_t k : t.keys) {
    if (away.count(k) != 0) continue;
    next.keys.push_back(k);
    std::vector<unsigned char> row(t.row(k), t.row(k) + t.row_bytes());
    if (other.count(k) != 0) row[0] ^= 0xff;
    next.bytes.insert(next.bytes.end(), row.begin(), row.end());
  }
  next.index();
  return next;
}

inline std::vector<unsigned char> rows_of(const KnownTable& t, const std::vector<int64_t>& keys) {
  std::vector<unsigned char> rows;
  for (const int64_t k : keys) rows.insert(rows.end(), t.row(k), t.row(k) + t.row_bytes());
  return rows;
}

/// From `t` to `next`: rows of `keys`, then `gone`. It stops before the end if `whole` is false.
inline void update(const Settings& settings, const KnownTable& t, const KnownTable& next,
                   const std::vector<int64_t>& keys, const std::vector<int64_t>& gone, bool whole = true) {
  Handle w;
  int64_t done = 0;
  REQUIRE(w.open(settings, {&t}, DPI_STORE_UPDATE) == 0);
  REQUIRE_MESSAGE(w.begin_update(0, next, 7, &done) == 0, w.message());
  REQUIRE(done == 0);
  const auto n = static_cast<int64_t>(keys.size());
  REQUIRE_MESSAGE(w.update(0, keys, rows_of(next, keys), n) == 0, w.message());
  if (!whole) return;
  if (!gone.empty()) REQUIRE(w.update(0, gone, {}, n + static_cast<int64_t>(gone.size())) == 0);
  REQUIRE_MESSAGE(w.end_update(0) == 0, w.message());
}

}  // namespace dpi::test
