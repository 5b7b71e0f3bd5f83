#include "store/host_tier/tier_sizes.hpp"

#include <algorithm>

#include "store/device_cache/device_cache.hpp"
#include "store/host_tier/row_scalars.hpp"
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
  o.down.policy = options.down;
  o.down.failures = options.down_failures;
  o.down.window_ns = static_cast<uint64_t>(options.down_seconds) * 1'000'000'000;
  o.budget = options.host_bytes;
  o.reserved = reserved;
  o.device_bytes = options.gpu_bytes;
  o.fetch.threads = options.fetch_threads;
  o.fetch.jobs = options.fetch_jobs;
  o.fetch.bytes_in_flight = options.fetch_bytes;
  if (!options.redis_address.empty())
    o.fetch.fetch_ns = static_cast<uint64_t>(options.redis_timeout_ms) * 1'000'000;
  return o;
}

const TierOptions::Table* TierOptions::find(const std::string& name) const {
  const auto at = std::find_if(tables.begin(), tables.end(), [&](const Table& t) { return t.name == name; });
  return at != tables.end() ? &*at : nullptr;
}

Result<uint64_t> tier_bytes(const std::vector<StoreTable>& tables, const TierOptions& options) {
  const std::vector<tiered::TierTable> rows = tier_tables(tables);
  if (rows.empty()) return uint64_t{0};
  const tiered::CacheOptions o = cache_options(options, reserved_places(tables));
  DPI_ASSIGN_OR_RETURN(const tiered::LinePlan lines, HostCache::plan_lines_of(rows, o));
  DPI_ASSIGN_OR_RETURN(const uint64_t bytes, HostCache::bytes(rows, o));
  return bytes + (lines.any() ? device_cache::DeviceCache::host_bytes(lines) : 0);
}

Result<uint64_t> device_cache_bytes(const std::vector<StoreTable>& tables, const TierOptions& options) {
  const std::vector<tiered::TierTable> rows = tier_tables(tables);
  if (rows.empty() || options.gpu_bytes == 0) return uint64_t{0};
  DPI_ASSIGN_OR_RETURN(const tiered::LinePlan lines,
                       HostCache::plan_lines_of(rows, cache_options(options, reserved_places(tables))));
  if (!lines.any())
    return Status(Code::kOutOfMemory, "option 'store.gpu_bytes' is " + std::to_string(options.gpu_bytes) +
                                          ", which is less than 16 rows of any table take");
  return lines.device_bytes;
}

Result<std::vector<LineShare>> device_cache_shares(const std::vector<StoreTable>& tables,
                                                   const TierOptions& options) {
  std::vector<LineShare> shares;
  const std::vector<tiered::TierTable> rows = tier_tables(tables);
  if (rows.empty() || options.gpu_bytes == 0) return shares;
  const tiered::CacheOptions o = cache_options(options, reserved_places(tables));
  DPI_ASSIGN_OR_RETURN(const tiered::ArenaPlan plan,
                       tiered::plan_arena(rows, o.budget, o.shards, o.reserved));
  const tiered::LinePlan lines = tiered::plan_lines(plan, o.reserved, o.device_bytes);
  for (size_t c = 0; c < plan.classes.size(); ++c) {
    const tiered::LinePlan::Class& size = lines.classes[c];
    shares.push_back({plan.classes[c].stride, size.lines(), size.sets * size.set_bytes, {}});
  }
  for (size_t t = 0; t < rows.size(); ++t)
    shares[static_cast<size_t>(plan.class_of[t])].tables.push_back(rows[t].name);
  return shares;
}

Result<uint64_t> hot_key_bytes(const std::vector<StoreTable>& tables, const TierOptions& options) {
  const std::vector<tiered::TierTable> rows = tier_tables(tables);
  if (rows.empty()) return uint64_t{0};
  DPI_ASSIGN_OR_RETURN(
      const tiered::ArenaPlan plan,
      tiered::plan_arena(rows, options.host_bytes, tiered::CacheOptions().shards, reserved_places(tables)));
  return tiered::Prefill::bytes(plan);
}

Result<bool> reads_host_rows(const dpi_backend_api& api, dpi_backend_device* device,
                             const TierOptions& options) {
  dpi_backend_caps caps{};
  dpi_backend_error err{};
  caps.struct_size = sizeof caps;
  if (const int32_t code = api.caps(device, &caps, &err); code != 0)
    return Status(static_cast<Code>(code), err.message);
  const bool on_device = (caps.flags & DPI_BACKEND_HOST_MEMORY) == 0;
  if (on_device && (caps.flags & DPI_BACKEND_FETCH) == 0)
    return unsupported(std::string("tables in host memory need a device whose kernels can read it; '") +
                       api.name + "' cannot");
  if (options.gpu_bytes > 0 && !on_device)
    return unsupported(std::string("option 'store.gpu_bytes' is about a device with memory of its own; '") +
                       api.name + "' computes in host memory");
  return on_device;
}

uint64_t tier_reader_bytes(int64_t max_ids) {
  return HostCache::reader_bytes(max_ids) +
         static_cast<uint64_t>(max_ids) * (sizeof(int64_t) + sizeof(int32_t));
}

}  // namespace dpi
