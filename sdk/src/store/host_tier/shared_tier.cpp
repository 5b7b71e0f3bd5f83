#include "store/host_tier/shared_tier.hpp"

#include <bit>
#include <cstdint>

#include "store/host_tier/tiered_store.hpp"

namespace dpi {

namespace {

/// Texts with their lengths, so that two lists of them never read alike.
void append_text(const std::string& text, std::string* to) {
  *to += std::to_string(text.size()) + ':' + text + ' ';
}

void append_table(const StoreTable& t, const TierOptions& options, std::string* to) {
  append_text(t.name, to);
  append_text(t.content, to);
  const TierOptions::Table* const o = options.find(t.name);
  const auto fill = std::bit_cast<uint32_t>(o != nullptr ? o->fill : 0.0f);
  for (const int64_t n : {t.rows, int64_t{t.dim}, int64_t{static_cast<int32_t>(t.dtype)},
                          int64_t{t.any_key ? 1 : 0}, int64_t{fill}})
    *to += std::to_string(n) + ' ';
  *to += o != nullptr && o->stale ? "stale " : "";
  for (const PinnedRow& p : t.pinned) *to += std::to_string(p.row) + '@' + std::to_string(p.place) + ' ';
}

/// Scalars that lie beside another table's row: what each is, to the bit.
void append_scalars(const StoreTable& t, const StoreTable& home, std::string* to) {
  append_text("scalars of " + home.name, to);
  for (const DerivedColumn& column : t.columns) {
    *to += std::to_string(column.size()) + ' ';
    for (const RowTerm& term : column) {
      *to += std::to_string(static_cast<int32_t>(term.kind)) + ' ' + std::to_string(term.column) + ' ' +
             std::to_string(std::bit_cast<uint32_t>(term.factor)) + ' ' +
             std::to_string(term.weights.size()) + ' ';
      for (const float w : term.weights) *to += std::to_string(std::bit_cast<uint32_t>(w)) + ' ';
    }
  }
}

}  // namespace

Status SharedTier::copy_to_device(const SharedTier* before) {
  if (!cache->lines().any()) return {};
  std::vector<uint32_t> split;
  if (before != nullptr && before->copies != nullptr &&
      tiered::same_classes(before->cache->plan(), cache->plan()))
    split = before->copies->split();
  DPI_ASSIGN_OR_RETURN(copies, device_cache::DeviceCache::make(api, device, cache.get(), split));
  DPI_RETURN_IF_ERROR(copies->prefill());
  return copies->start();
}

TierStats SharedTier::stats(int32_t table, const tiered::CacheMember& member) const {
  const tiered::HostCache::Stats s = cache->stats(table, member);
  TierStats r;
  r.hits = s.lookups.hits, r.late = s.lookups.late, r.absent = s.lookups.absent;
  r.defaulted = s.lookups.defaulted, r.dropped = s.lookups.dropped;
  r.down = s.lookups.down, r.expired = s.fetches.expired;
  r.fetched = s.fetches.fetched, r.missing = s.fetches.absent, r.failed = s.fetches.failed;
  const tiered::HostCache::Sampled sampled = cache->sampled(table);
  r.device_sampled = sampled.all, r.device_hits = sampled.held;
  r.reads = s.fetches.reads, r.read_ns = s.fetches.read_ns;
  r.bytes = s.fetches.bytes, r.p50_ns = s.fetches.p50_ns, r.p99_ns = s.fetches.p99_ns;
  return r;
}

Result<TierClaim> TierClaim::claim(SharedParts* parts, std::string what,
                                   const std::function<Status()>& go_on) {
  TierClaim c;
  std::vector<std::string> keys;
  keys.push_back("host tier " + std::move(what));
  DPI_ASSIGN_OR_RETURN(c.claim_, parts->claim(std::move(keys), go_on));
  c.on_ = true;
  return c;
}

std::shared_ptr<SharedTier> TierClaim::given() const {
  return on_ ? std::static_pointer_cast<SharedTier>(claim_.part(0)) : nullptr;
}

void TierClaim::publish(const std::shared_ptr<SharedTier>& made) {
  if (on_) claim_.publish(0, made);
}

Result<bool> TierSharing::same_rows(const SharedTier& given, int32_t table, int64_t first, int64_t n,
                                    std::span<const std::byte> rows, uint64_t own_bytes) const {
  const auto other = given.rows->first_other(table, first, n, rows);
  if (other.ok() && *other < 0) return true;
  const std::string what =
      "table '" + given.rows->table(table).name + "': another loaded model states " + "the same hash, but " +
      (other.ok() ? "row " + std::to_string(*other) + " differs" : other.status().message());
  if (spare && own_bytes > spare())
    return Status(Code::kOutOfMemory,
                  what + ", and a host tier of " + std::to_string(own_bytes) +
                      " bytes for this model alone is more than option memory_limit allows");
  if (warn)
    warn(what +
         "; the host tier is not shared and starts empty; the data of one of the two bundles does not match "
         "its hashes (dpi verify)");
  return false;
}

std::shared_ptr<SharedTier> tier_before(const std::vector<StoreTable>& tables) {
  std::shared_ptr<void> tier;
  for (const StoreTable& t : tables) {
    if (!t.tiered || !t.columns.empty()) continue;
    if (t.before.memory == nullptr || (tier != nullptr && t.before.memory != tier)) return nullptr;
    tier = t.before.memory;
  }
  return std::static_pointer_cast<SharedTier>(tier);
}

std::string tier_key(const std::vector<StoreTable>& tables, const TierOptions& options) {
  std::string key;
  for (const StoreTable& t : tables) {
    if (!t.tiered) continue;
    if (!t.columns.empty()) {
      append_scalars(t, tables[static_cast<size_t>(t.ride_with)], &key);
      continue;
    }
    if (t.content.empty()) return {};
    append_table(t, options, &key);
  }
  if (key.empty()) return key;
  for (const uint64_t n :
       {options.host_bytes, options.gpu_bytes, static_cast<uint64_t>(options.fetch_threads),
        static_cast<uint64_t>(options.fetch_jobs), options.fetch_bytes, static_cast<uint64_t>(options.down),
        static_cast<uint64_t>(options.down_failures), static_cast<uint64_t>(options.down_seconds),
        static_cast<uint64_t>(options.redis_connections), static_cast<uint64_t>(options.redis_connect_ms),
        static_cast<uint64_t>(options.redis_timeout_ms)})
    key += std::to_string(n) + ' ';
  for (const std::string* s :
       {&options.rocksdb_path, &options.redis_address, &options.redis_user, &options.redis_password,
        &options.redis_tls, &options.redis_tls_ca, &options.redis_tls_cert, &options.redis_tls_key,
        &options.redis_replicas, &options.hot_keys})
    append_text(*s, &key);
  return key;
}

}  // namespace dpi
