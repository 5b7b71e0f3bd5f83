#include "store/tier_sizes.hpp"

#include <algorithm>

#include "store/row_scalars.hpp"
#include "store/tiered/prefill.hpp"

namespace dpi {

using tiered::HostCache;

int32_t reserved_places(const std::vector<StoreTable>& tables) {
  int32_t n = 0;
  for (const StoreTable& t : tables) {
    for (const PinnedRow& p : t.pinned) n = std::max(n, p.place + 1);
  }
  return n;
}

tiered::CacheOptions cache_options(const TierOptions& options, int32_t reserved) {
  tiered::CacheOptions o;
  o.budget = options.host_bytes;
  o.reserved = reserved;
  o.fetch.threads = options.fetch_threads;
  o.fetch.jobs = options.fetch_jobs;
  o.fetch.bytes_in_flight = options.fetch_bytes;
  return o;
}

const TierOptions::Table* TierOptions::find(const std::string& name) const {
  const auto at = std::find_if(tables.begin(), tables.end(), [&](const Table& t) { return t.name == name; });
  return at != tables.end() ? &*at : nullptr;
}

Result<uint64_t> tier_bytes(const std::vector<StoreTable>& tables, const TierOptions& options) {
  const std::vector<tiered::TierTable> rows = tier_tables(tables);
  if (rows.empty()) return uint64_t{0};
  return HostCache::bytes(rows, cache_options(options, reserved_places(tables)));
}

Result<uint64_t> hot_key_bytes(const std::vector<StoreTable>& tables, const TierOptions& options) {
  const std::vector<tiered::TierTable> rows = tier_tables(tables);
  if (rows.empty()) return uint64_t{0};
  DPI_ASSIGN_OR_RETURN(
      const tiered::ArenaPlan plan,
      tiered::plan_arena(rows, options.host_bytes, tiered::CacheOptions().shards, reserved_places(tables)));
  return tiered::Prefill::bytes(plan);
}

uint64_t tier_reader_bytes(int64_t max_ids) {
  return HostCache::reader_bytes(max_ids) +
         static_cast<uint64_t>(max_ids) * (sizeof(int64_t) + sizeof(int32_t));
}

}  // namespace dpi
