// A host tier as models of an environment hold it together: rows, directory, fetch threads and the file
// below, once, freed with the last. Models share one when all their tiered tables are equal, row by row, and
// so are the options that a tier is made of and the scalars that folds derive from a row: then every row that
// it holds is right for each of them, and nothing of it is one model's alone but counters and policies
// (tiered/cache_member.hpp).
//
// As with table_blocks.hpp nobody believes what a bundle says of its tables: it only says where to look. Rows
// that stream in are compared with those of the file below the tier, and a model of which one differs makes a
// tier of its own.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "base/shared_parts.hpp"
#include "base/status.hpp"
#include "store/device_cache/device_cache.hpp"
#include "store/host_tier/bundle_rows.hpp"
#include "store/host_tier/pinned_blocks.hpp"
#include "store/host_tier/row_scalars.hpp"
#include "store/table_store.hpp"
#include "store/tiered/host_cache.hpp"

namespace dpi {

struct TierOptions;

/// owner: closes the device when the last of its tiers, blocks and models has gone.
struct SharedTier {
  SharedTier(const dpi_backend_api* device_api, dpi_backend_device* on,
             std::shared_ptr<const void> device_owner)
      : owner(std::move(device_owner)), api(*device_api), device(on), pinned(device_api, on) {}
  /// Where the options say so: copies of the rows that are here by then. before: a tier of which the copies
  /// have been used, or null; where its size classes are the same they are shared out as there.
  Status copy_to_device(const SharedTier* before);
  /// Counts of one model that uses it.
  TierStats stats(int32_t table, const tiered::CacheMember& member) const;

  const std::shared_ptr<const void> owner;
  const dpi_backend_api& api;
  dpi_backend_device* const device;
  PinnedBlocks pinned;
  std::unique_ptr<BundleRows> rows;
  std::vector<RowScalars> scalars;                    // by the table's number in the cache
  std::unique_ptr<tiered::HostCache> cache;           // goes before what it reads from
  std::unique_ptr<device_cache::DeviceCache> copies;  // over it; null where nothing is copied
};

/// What a model's load has of the tier that it asked for.
class TierClaim {
 public:
  TierClaim() = default;  // of nothing: the model has a tier of its own
  /// what: tier_key with whatever else must be equal. Waits as SharedParts::claim does.
  static Result<TierClaim> claim(SharedParts* parts, std::string what, const std::function<Status()>& go_on);

  /// Complete, of another model; null = it is to be made.
  std::shared_ptr<SharedTier> given() const;
  void publish(const std::shared_ptr<SharedTier>& made);
  bool on() const { return on_; }
  void alive() const { claim_.alive(); }

 private:
  SharedParts::Claim claim_;
  bool on_ = false;
};

/// What the tier of these tables is made of, "" when it is not to be shared: no table is tiered, or one does
/// not say what its rows are (StoreTable::content).
std::string tier_key(const std::vector<StoreTable>& tables, const TierOptions& options);

/// That of the version before: what is asked for there will be asked for here. Null where it has not all of
/// these tables, or rows have other numbers there.
std::shared_ptr<SharedTier> tier_before(const std::vector<StoreTable>& tables);

/// What a store needs for its tier to be shared.
struct TierSharing {
  /// Are the rows [first, first + n) of a table those below the tier that was given? Says so, too, where they
  /// are not; kOutOfMemory when a tier of the model's own, of so many bytes, may not be made.
  Result<bool> same_rows(const SharedTier& given, int32_t table, int64_t first, int64_t n,
                         std::span<const std::byte> rows, uint64_t own_bytes) const;

  std::shared_ptr<const void> owner;  // of the device
  TierClaim claim;
  std::function<void(const std::string& text)> warn;  // may be empty
  std::function<uint64_t()>
      spare;               // bytes that a tier of the model's own may take beyond the forecast; empty = any
  LogSink* log = nullptr;  // of the environment; null = nobody listens
};

}  // namespace dpi
