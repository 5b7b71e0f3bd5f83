// The rows that a host cache holds once its model has loaded: the rows that a hot-key list names, hottest
// first over all tables of a size class, as warm as the list says; then, where places are left, the first
// rows of each table by its share of all rows. Which ones is settled before the first row streams by, so each
// goes to its place as it passes, and nothing is read twice. The next version of a model has the keys of the
// version before in place of the list.
//
//   Prefill prefill(cache, tables);
//   DPI_RETURN_IF_ERROR(prefill.choose(list));  // none: first rows only
//   prefill.offer(table, row, bytes) ...        // of a table in rising order
//   DPI_RETURN_IF_ERROR(prefill.fetch_rest(table, source));
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "store/hot_keys/hot_keys.hpp"
#include "store/tiered/host_cache.hpp"
#include "store/tiered/row_source.hpp"

namespace dpi::tiered {

class Prefill {
 public:
  struct Table {
    std::string name;
    int64_t rows = 0;                // that will pass
    std::vector<int64_t> elsewhere;  // keys that the cache is never asked for
  };
  /// tables: as the cache has them. No call may have used it yet.
  Prefill(HostCache* cache, std::vector<Table> tables);

  /// Tables of the list that the cache has not are resident: nothing is to be done for them.
  Status choose(const HotKeyFile& list);
  /// Chooses what another cache of these tables holds, as warm as there.
  void choose(const HostCache& before);
  void offer(int32_t table, int64_t key, std::span<const std::byte> row);
  /// Rows that were chosen and did not pass, in order of their keys.
  Status fetch_rest(int32_t table, RowSource& source);

  /// The most bytes that a list's choice takes while loading.
  static uint64_t bytes(const ArenaPlan& plan);

 private:
  struct Chosen {
    int64_t key = 0;
    int32_t table = 0;
    uint8_t heat = 0;
  };
  /// The chosen rows of a table that have not passed, and how many of its first rows may have places.
  struct Passing {
    size_t next = 0, end = 0;
    int64_t first_rows = 0;
  };
  struct Cursor;

  size_t class_of(int32_t table) const;
  bool is_elsewhere(int32_t table, int64_t key) const;
  bool take_place(int32_t table, int64_t key);
  std::vector<Cursor> open_list(const HotKeyFile& list) const;
  uint8_t heat_of(uint64_t count, size_t size_class) const;
  void sort();
  Status check_once(const HotKeyFile& list) const;
  void share_out_first_rows();
  Status fetch(int32_t table, std::span<const Chosen> rows, RowSource& source);

  HostCache* const cache_;
  const std::vector<Table> tables_;
  std::vector<int32_t> spare_;        // places, per shard of the cache
  std::vector<int64_t> class_spare_;  // their sums
  std::vector<double> class_lookups_;
  std::vector<Chosen> chosen_;
  std::vector<Passing> passing_;  // per table
};

}  // namespace dpi::tiered
