// The store of a model whose large tables do not fit memory: plain tables lie in another store, rows of
// tiered ones in a host cache of fixed size over the bundle's file (tiered/host_cache.hpp). Rows that stream
// by while the model loads fill the cache: those that a hot-key list names, then each table's first ones
// (tiered/prefill.hpp). Models of equal tables and options use one cache (shared_tier.hpp): what the first of
// them loaded the next ones find there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "base/environment.hpp"
#include "store/host_tier/bundle_rows.hpp"
#include "store/host_tier/shared_tier.hpp"
#include "store/hot_keys/hot_keys.hpp"
#include "store/table_store.hpp"
#include "store/tiered/host_cache.hpp"

namespace dpi {

struct TierOptions {
  struct Table {
    std::string name;
    tiered::MissPolicy miss = tiered::MissPolicy::kExact;
    float fill = 0;      // of every column, where policy default has no row
    bool stale = false;  // external: rows of later updates will do
  };
  uint64_t host_bytes = 0;    // of all tiered tables together
  uint64_t gpu_bytes = 0;     // of the device, for copies of their warm rows; 0 = none
  std::vector<Table> tables;  // those that differ from the others
  int32_t fetch_threads = 2;
  int32_t fetch_jobs = 64;
  int32_t parked = 0;                         // calls that wait for rows at once; 0 = four times max_contexts
  uint64_t fetch_bytes = uint64_t{64} << 20;  // under way at most
  tiered::DownPolicy down = tiered::DownPolicy::kAsMiss;
  int32_t down_failures = 5;  // that make a store down, within
  int32_t down_seconds = 10;
  std::string rocksdb_path;  // where rows of external tables are: one of the two
  std::string redis_address, redis_user, redis_password;
  std::string redis_tls = "off", redis_tls_ca, redis_tls_cert, redis_tls_key;
  std::string redis_replicas = "off";
  int32_t redis_connections = 0;  // to one server; 0 = fetch_threads
  int32_t redis_connect_ms = 1000, redis_timeout_ms = 1000;
  std::string hot_keys;  // path of a list that the cache is filled by; "" = the bundle's, if any; kNoHotKeys

  static constexpr const char* kNoHotKeys = "off";

  const Table* find(const std::string& name) const;
};

/// Bytes of host memory for the tiered ones among `tables`: the cache, without its readers.
Result<uint64_t> tier_bytes(const std::vector<StoreTable>& tables, const TierOptions& options);
/// Bytes of the device for copies of their warm rows.
Result<uint64_t> device_cache_bytes(const std::vector<StoreTable>& tables, const TierOptions& options);
/// How it is shared out when the cache is made: per stride of rows.
struct LineShare {
  int64_t row_bytes = 0;
  int64_t lines = 0;
  int64_t bytes = 0;  // lines and tags
  std::vector<std::string> tables;
};
Result<std::vector<LineShare>> device_cache_shares(const std::vector<StoreTable>& tables,
                                                   const TierOptions& options);
/// The most bytes that choosing rows by a hot-key list, if any, takes while loading.
Result<uint64_t> hot_key_bytes(const std::vector<StoreTable>& tables, const TierOptions& options);
/// Bytes of a reader for requests of so many ids.
uint64_t tier_reader_bytes(int64_t max_ids);

/// rows: of the tiered tables, in their order. plain: the store of the others; sees the tiered ones as tables
/// without rows. Rows lie in memory that the device's kernels can read. kUnsupported when they can read none
/// of the host's. api and device must outlive the store. hot: a list of this bundle's, or null.
Result<std::unique_ptr<TableStore>> make_tiered_store(std::unique_ptr<TableStore> plain,
                                                      std::unique_ptr<BundleRows> rows,
                                                      const TierOptions& options, const dpi_backend_api* api,
                                                      dpi_backend_device* device, const MemoryHooks& hooks,
                                                      std::unique_ptr<HotKeyFile> hot = nullptr,
                                                      TierSharing sharing = {});

}  // namespace dpi
