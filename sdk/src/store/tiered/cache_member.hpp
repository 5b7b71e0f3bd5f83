// One of the models that use a host cache: what it does about rows that are late, and what its calls met.
// Made by HostCache::join, off the path of calls; outlives its readers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "store/tiered/latency.hpp"
#include "store/tiered/sync.hpp"

namespace dpi::tiered {

enum class MissPolicy : int32_t { kExact, kDefault, kFail };

/// Looked-up keys, not distinct ones. Written by the reader alone, read by whoever sums.
struct alignas(64) TableCounts {
  uint64_t hits = 0;       // in the host tier already
  uint64_t late = 0;       // waited for
  uint64_t absent = 0;     // in no tier: default row
  uint64_t defaulted = 0;  // late, and served with the default row (policy default)
  uint64_t dropped = 0;    // defaulted, and not even fetched behind: no place or no job was free
  uint64_t down = 0;       // not here, and decided by DownPolicy while their store was down
};

/// A count that the caller alone writes.
inline void add_count(uint64_t* count, int64_t n) {
  StdSync::store(*count, StdSync::own(*count) + static_cast<uint64_t>(n), std::memory_order_relaxed);
}

/// Adds what another thread may be counting.
inline void add_counts(const TableCounts& from, TableCounts* to) {
  to->hits += StdSync::own(from.hits);
  to->late += StdSync::own(from.late);
  to->absent += StdSync::own(from.absent);
  to->defaulted += StdSync::own(from.defaulted);
  to->dropped += StdSync::own(from.dropped);
  to->down += StdSync::own(from.down);
}

/// Counts of a table's fetches: rows, and bytes of the source.
struct FetchCount {
  uint64_t fetched = 0, absent = 0, failed = 0, bytes = 0;
  uint64_t expired = 0;  // left the queue: nobody waited for them any more, or their store was down
  uint64_t reads = 0, read_ns = 0;  // by fetch threads: how many, and their time together
  LatencyHistogram latency;         // of fetches, not of rows
};
using FetchCounts = std::vector<FetchCount>;  // per table

struct CacheMember {
  std::vector<MissPolicy> policies;  // per table
  std::vector<TableCounts> gone;     // of its readers that have gone; under the cache's lock
  std::shared_ptr<FetchCounts>
      fetches;  // which its calls were the first to ask for; under the fetcher's lock
};

}  // namespace dpi::tiered
