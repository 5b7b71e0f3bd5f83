// Makes an Engine from a bundle: what is needed only while a model loads lives here, and goes with it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/engine.hpp"

namespace dpi {

/// One load of one engine, on one thread. The engine outlives the loader and is complete once load() is OK;
/// after an error it may only be destroyed.
class EngineLoader {
 public:
  /// `base` may be null: no tables are taken over.
  EngineLoader(Engine* engine, Bundle* bundle, const LoadBase* base, LoadWatch* watch)
      : engine_(*engine), bundle_(bundle), base_(base), watch_(watch) {}

  /// `store` is given by tests; null: the stores that the plan and the options ask for.
  Status load(std::unique_ptr<TableStore> store);
  /// After load(): says where the tables of option store.peer_devices lie.
  void tell_range() const;

 private:
  Status open_backend();
  Status check_rows() const;
  Status make_plan();
  Status choose_range();
  Status check_limit(DeviceSizes device);
  Status check_memory();
  Status check_user_cache();
  Status make_user_cache();

  Status upload_constants();
  Status prepare_ops();
  void cut_ops();
  Status prepare_small_batch();
  void drop_params();
  uint64_t packed_bytes() const;

  std::string table_token() const;
  std::vector<StoreTable> tables_of() const;
  Status claim_tables();
  Status claim_tier(const std::string& where, const std::vector<StoreTable>& tables);
  Status make_store();
  Status load_tables();
  void find_overlaid();
  std::function<void(const std::string& text)> table_messages(LogLevel level) const;
  std::function<uint64_t()> beyond_forecast() const;

  Engine& engine_;
  Bundle* bundle_;
  const LoadBase* base_;
  LoadWatch* watch_;
  BlockClaims claims_;  // until the store has them, as the next
  TierClaim tier_claim_;
  std::vector<std::shared_ptr<RowVersion>>
      versions_;              // that tables are taken over from, by table of the plan
  uint64_t there_bytes_ = 0;  // of blocks that those lie in
  uint64_t const_bytes_ = 0;  // of the plan's constants on the device
};

}  // namespace dpi
