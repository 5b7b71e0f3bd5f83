// Where embedding rows live. The engine sees storage only through this interface: the resident arena
// implements it trivially, tiers (host cache, files, servers) stand behind the same one.
//
//   load:     plan(tables) -> ingest(table, first_row, rows) ... -> seal() -> open_reader(ids) per flight
//   a call:   reader->acquire(request) == kReady before anything is launched; then view(table) is what the
//   lookup kernels read, until release() after the last of them has finished
//
// A table is plain: ids are its row numbers, as packed. Or it is tiered: acquire looks each id up and writes
// the *place* of its row, a number that means the row only until release. Kernels read places as they read
// row numbers. Ids of a table of raw keys number the keys of their request.
//
// Threads: plan, ingest and seal come from one thread; readers are used side by side, each by one thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <dpi/kernels/tensor.hpp>

#include "base/status.hpp"
#include "plan/pinned_row.hpp"
#include "plan/row_term.hpp"
#include "store/row_wait.hpp"
#include "store/store_status.hpp"
#include "store/table_handover.hpp"

namespace dpi {

struct StoreTable {
  std::string name;
  int64_t rows = 0;
  int32_t dim = 0;
  kernels::DType dtype = kernels::DType::kF32;
  bool needs_nonzero = false;
  int32_t ride_with = -1;  // index of the table in whose row padding this one (f32, same rows) may sit
  bool tiered = false;
  std::vector<PinnedRow>
      pinned;  // of a tiered table: acquire gives these places for them, and to no other row of any table
  std::string content;   // what its rows are made of, as the bundle says; "" = it is not to be shared
  bool any_key = false;  // tiered: a call's keys may be others than those of its rows
  /// Columns of a derived tiered table. It has no rows of its own: the store computes its columns from each
  /// row of ride_with as that comes, and both are read at the same place. Nothing of it is ingested.
  std::vector<DerivedColumn> columns = {};
  std::string terms = {};  // of a derived table: what its columns are made of, beside the rows
  /// Rows that another store of the same device holds() of the same table of the bundle, known and not only
  /// said to be the same. A store that is given the same memory takes it without looking, else it copies the
  /// rows where their content is the same too (factors of derived ones).
  HeldRows same = {};
  /// Rows that another store of the same device holds() of the table as it was before some of them changed:
  /// ingest_before() names those that did not.
  HeldRows before = {};
  /// Tables of one number >= 0 are looked up by the same ids, and have as many rows: `spare` rows behind them
  /// are for versions to come (spare_rows.hpp), in blocks of their own.
  int32_t row_group = -1;
  int64_t spare = 0;
  /// The table's rows are those of another store but for this: nothing of it is ingested, fresh() of its rows
  /// are put into their spare rows. All of a group have it or none.
  std::shared_ptr<RowVersion> version = {};
};

/// Counts of a tiered table's lookups so far, and of the fetches for it.
struct TierStats {
  uint64_t hits = 0;       // ids whose row was in host memory
  uint64_t late = 0;       // that were waited for
  uint64_t absent = 0;     // that no tier has: default row
  uint64_t defaulted = 0;  // that were late, and got the default row
  uint64_t dropped = 0;    // of those, not even fetched behind: no place or no fetch was free
  uint64_t down = 0;       // that had no row here while their store was down (option store.down)
  uint64_t fetched = 0, missing = 0, failed = 0;  // rows
  uint64_t expired = 0;                           // rows that left the fetch queue unread
  uint64_t bytes = 0;                             // that fetches brought
  uint64_t reads = 0, read_ns = 0;                // of fetch threads: how many, and their time together
  uint64_t p50_ns = 0, p99_ns = 0;                // of a fetch
  // Of a sample of the lookups: how many, and how many found their row in the device's cache.
  uint64_t device_sampled = 0, device_hits = 0;
};

/// Where the rows of looked-up ids lay, by a sample, for a table that lies over several devices.
struct PeerStats {
  uint64_t own = 0;     // in the device's own share
  uint64_t copied = 0;  // elsewhere, and in a copy on the device
  uint64_t remote = 0;  // elsewhere
  int64_t copies = 0;   // rows that have one
};

struct StoreForecast {
  uint64_t host_bytes = 0;
  uint64_t device_bytes = 0;
  uint64_t range_bytes = 0;           // in ranges over several devices; no part of the two above
  std::vector<uint64_t> table_bytes;  // with padding, per table
  std::vector<bool> in_range;         // per table
};

/// The ids of a chunk as acquire sees them: one entry per table that is read (several may name one table).
struct StoreRequest {
  struct Lookup {
    int32_t table = 0;
    kernels::Bags ids;
    int32_t* places = nullptr;          // of a tiered table: where its ids' places go, bag by bag as ids lie
    int64_t place_stride = 0;           // between rows of places, where ids.stride counts (one id a row)
    const int64_t* raw_keys = nullptr;  // where ids are numbers of keys: of key i. Else null
  };
  std::span<const Lookup> lookups;
  uint64_t deadline_ns = 0;  // CLOCK_MONOTONIC, 0 = none
  bool may_wait = true;  // for room that leases hold: no where the caller holds another. kOutOfMemory then
  const volatile int32_t* cancel = nullptr;  // read atomically while waiting: not 0 = kCancelled
  RowWait* row_wait = nullptr;               // told of waits; null = nobody is
};

/// The most that one request asks of tiered tables.
struct ReaderLimits {
  int64_t ids = 0;
  int64_t lookups = 0;
};

enum class Readiness : int32_t { kReady, kLate };

/// One flight's way to the rows. Holds at most one lease at a time: what acquire found stays where it is, and
/// stays of one version, until release.
class StoreReader {
 public:
  virtual ~StoreReader() = default;
  /// kLate: not all rows could be had before the deadline (the call answers DPI_E_TIMEOUT); an error status
  /// means the store failed. Neither leaves a lease. Must not allocate when nothing is missing. An error
  /// about one id has the id's index in its lookup as row(), and the lookup's in the request as feature().
  virtual Result<Readiness> acquire(const StoreRequest& request) = 0;
  /// After all that read the lease's rows has finished (on a device: has been waited for). Without a lease
  /// nothing.
  virtual void release() = 0;
  /// The table's view under the lease; valid until the next acquire.
  virtual kernels::TableView view(int32_t table) const = 0;
  /// Changes when any view does. What rows say may change without it, so captured graphs stay valid.
  virtual uint64_t addresses() const = 0;
  /// Ids so far that the host tier did not have; 0 without one.
  virtual uint64_t misses() const { return 0; }
  /// Memory that grows with ReaderLimits.
  virtual uint64_t bytes() const { return 0; }
};

/// Bytes staged at once when rows go to or come from a device.
constexpr int64_t kStagingBytes = int64_t{4} << 20;

class TableStore {
 public:
  virtual ~TableStore() = default;
  /// Computes every row's place and the bytes; allocates nothing. Fails with kOutOfMemory when the budget
  /// cannot hold it.
  virtual Result<StoreForecast> plan(std::vector<StoreTable> tables) = 0;
  /// n_rows rows from first_row of `table`, unpadded, in the table's dtype (bytes = n_rows *
  /// row_bytes_of).
  virtual Status ingest(int32_t table, int64_t first_row, int64_t n_rows,
                        std::span<const std::byte> rows) = 0;
  /// After plan. Room for the table's rows where they will lie one behind another: rows that are there when
  /// they are ingested are not copied. Empty where there is none.
  virtual std::span<std::byte> room(int32_t) { return {}; }
  virtual Status ingest_scale(int32_t table, std::span<const float> scale) = 0;  // kI8
  /// After the last ingest: every row must have come. Makes the tables readable.
  virtual Status seal() = 0;
  /// After seal. The store outlives its readers.
  virtual Result<std::unique_ptr<StoreReader>> open_reader(const ReaderLimits& limits) = 0;
  /// False: acquire looks at no ids of plain tables, and a request may come without them.
  virtual bool needs_ids() const { return true; }
  /// Counts of a tiered table; nothing where nobody counts.
  virtual std::optional<TierStats> tier_stats(int32_t) const { return {}; }
  /// After seal: the stores below the host tier, whichever model asked them.
  virtual std::vector<StoreStatus> stores() const { return {}; }
  /// After seal, of a table that lies over several devices.
  virtual std::optional<PeerStats> peer_stats(int32_t) const { return {}; }
  /// The exchange with the stores of the version before and of the next one; lives as long as the store.
  virtual TableHandover& handover();
  const TableHandover& handover() const { return const_cast<TableStore*>(this)->handover(); }
};

/// A store without one hands nothing over.
inline TableHandover& TableStore::handover() {
  static TableHandover nothing;
  return nothing;
}

}  // namespace dpi
