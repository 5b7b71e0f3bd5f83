// A call with misses, between acquire.cpp and scarce.cpp.
#pragma once

#include "store/tiered/host_cache.hpp"

namespace dpi::tiered {

struct HostCache::Call {
  CacheReader& r;
  std::span<const CacheLookup> lookups;
  uint64_t deadline_ns = 0;
  std::unique_lock<std::timed_mutex> scarce;  // held: the call has places of its own
  bool every_key = false;                     // it needs one for each key, not for its misses only
  bool may_wait = true;                       // for places
  const volatile int32_t* cancel = nullptr;
  RowWait* row_wait = nullptr;
  bool waits = false;  // row_wait has been told
  bool again = false;  // it has looked before: what is there may be its own fetch

  bool cancelled() const { return cancel != nullptr && __atomic_load_n(cancel, __ATOMIC_ACQUIRE) != 0; }
  /// How long it may sleep of the time until `until` (0 = for ever) before it looks at its flag again.
  uint64_t nap(uint64_t until) const;
  /// Before it waits for the first time; an error ends it.
  Status begin_wait();
  /// When it has its rows, or failed as `settled` says: how it goes on.
  Status end_wait(Status settled);

  MissPolicy policy(int32_t table) const { return r.member->policies[static_cast<size_t>(table)]; }
  const Table& table(const HostCache& cache, int32_t lookup) const {
    return cache.tables_[static_cast<size_t>(lookups[static_cast<size_t>(lookup)].table)];
  }
};

}  // namespace dpi::tiered
