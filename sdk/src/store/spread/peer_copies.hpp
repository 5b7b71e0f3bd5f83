// Copies of the hottest rows of tables that lie over several devices (table_range.hpp), in the memory of the
// device that reads them: a row cache (<dpi/kernels/row_cache.hpp>) per table, written once when the rows are
// there. It never changes, so nobody waits for readers as device_cache/ has to. Option store.peer_copy_bytes.
//
// Which rows: a hot-key list says how often each was asked for. Of all tables together the rows that save
// most reads per byte are taken first, until the bytes are used up; rows that the device has as its own share
// need no copy. Used by range_reads.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "base/status.hpp"
#include "store/arena_map.hpp"
#include "store/device_cache/lines.hpp"
#include "store/hot_keys/hot_keys.hpp"
#include "store/table_range.hpp"

namespace dpi {

struct PeerCopyOptions {
  uint64_t bytes = 0;                     // of each device; 0 = no copies
  std::shared_ptr<const HotKeyFile> hot;  // null only without copies
  std::vector<int32_t> in_list;           // by table of the store: its rows' keys in the list, -1 = none
};

/// A table in a range, with who rides in its rows, as one device reads it.
struct RangeTable {
  int32_t table = -1;  // of the store
  const std::byte* rows = nullptr;
  int64_t stride = 0;
  int64_t count = 0;
  uint64_t bytes = 0;     // of its block
  int32_t in_list = -1;   // PeerCopyOptions::in_list
  bool copyable = false;  // may_have_copies
};

/// The row's first byte lies in the share `own` of the range; -1 = the device has none.
bool is_own_row(const TableRange& range, int32_t own, const RangeTable& table, int64_t row);

/// A line holds a whole row, in words of 4 bytes: so no table whose scales lie apart from its rows.
bool may_have_copies(const StoreTable& table, const ArenaMap::Table& at);

/// The most memory that copies take. host: the tags again.
struct PeerCopyBytes {
  uint64_t device = 0, host = 0;
};
PeerCopyBytes most_copy_bytes(const std::vector<StoreTable>& tables, const ArenaMap& map, uint64_t budget);

class PeerCopies {
 public:
  /// Copies the rows; api and device must outlive it. own: the share of `range` that is this device's, -1 =
  /// none.
  static Result<std::unique_ptr<PeerCopies>> make(const dpi_backend_api& api, dpi_backend_device* device,
                                                  const TableRange& range, int32_t own,
                                                  std::vector<RangeTable> tables,
                                                  const PeerCopyOptions& options);
  ~PeerCopies();
  PeerCopies(const PeerCopies&) = delete;
  PeerCopies& operator=(const PeerCopies&) = delete;

  /// For kernels; null where the table has no copies.
  const kernels::RowCache* cache(size_t table) const { return caches_[table].on_device; }
  bool has(size_t table, int32_t row) const {
    return caches_[table].on_device != nullptr &&
           caches_[table].lines.line_of(row) != device_cache::Lines::kNone;
  }
  int64_t rows(size_t table) const { return caches_[table].copied; }
  uint64_t bytes() const { return bytes_; }  // of the device

 private:
  struct Cache {
    const kernels::RowCache* on_device = nullptr;
    device_cache::Lines lines{0};
    uint32_t sets = 0;
    int64_t copied = 0;
    std::byte* rows = nullptr;  // lines
    uint32_t* tags = nullptr;
  };
  class Filler;

  PeerCopies(const dpi_backend_api& api, dpi_backend_device* device, std::vector<RangeTable> tables)
      : api_(api), device_(device), tables_(std::move(tables)), caches_(tables_.size()) {}
  Status choose(const TableRange& range, int32_t own, const PeerCopyOptions& options);
  void spread_sets(uint64_t budget);
  Status take_memory();
  Status describe(size_t table);

  const dpi_backend_api& api_;
  dpi_backend_device* const device_;
  const std::vector<RangeTable> tables_;
  std::vector<Cache> caches_;
  void* block_ = nullptr;  // the device's
  uint64_t bytes_ = 0;
};

}  // namespace dpi
