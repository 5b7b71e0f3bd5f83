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
  bool again = false;                         // it has looked before: what is there may be its own fetch

  const Table& table(const HostCache& cache, int32_t lookup) const {
    return cache.tables_[static_cast<size_t>(lookups[static_cast<size_t>(lookup)].table)];
  }
};

}  // namespace dpi::tiered
