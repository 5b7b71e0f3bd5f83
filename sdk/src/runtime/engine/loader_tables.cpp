// Where tables come from and go to: blocks that models share, the store, the tier.
#include "runtime/engine/engine_loader.hpp"

#include <algorithm>
#include <utility>

#include "runtime/load/hot_keys.hpp"
#include "runtime/load/table_loader.hpp"
#include "runtime/load/tiers.hpp"
#include "runtime/options/device_list.hpp"
#include "store/resident/resident_store.hpp"

namespace dpi {

/// The name that engines of one model give to tables that no other model may share.
std::string EngineLoader::table_token() const {
  if (devices_of(engine_.options_).size() < 2) return {};
  return "of load " + std::to_string(engine_.first_ != nullptr ? engine_.first_->number_ : engine_.number_);
}

std::vector<StoreTable> EngineLoader::tables_of() const {
  std::vector<StoreTable> tables = store_tables(*bundle_, engine_.plan_, engine_.options_.share, base_,
                                                engine_.options_.spare_percent, table_token());
  for (size_t t = 0; t < versions_.size(); ++t) tables[t].version = versions_[t];
  return tables;
}

/// Before the model's memory is forecast: what others hold already need not fit. May wait for a model that
/// loads the same tables.
Status EngineLoader::claim_tables() {
  if (!engine_.options_.share && table_token().empty()) return {};
  std::vector<StoreTable> tables = tables_of();
  if (const LoadBase* base = same_plan(engine_.plan_, base_); base != nullptr)
    take_rows_over(*bundle_, engine_.plan_, *base, table_messages(LogLevel::kInfo), &tables);
  for (const StoreTable& t : tables) versions_.push_back(t.version);
  DPI_ASSIGN_OR_RETURN(const ArenaMap map,
                       make_arena_map(tables, !engine_.host_memory(), engine_.range_.least()));
  there_bytes_ = map.there_bytes;
  // Memory of one device, from one place. Blocks from hooks of a caller are for models with the same hooks.
  const void* const from[] = {&engine_.api(), reinterpret_cast<const void*>(engine_.device_->hooks.alloc),
                              reinterpret_cast<const void*>(engine_.device_->hooks.free),
                              engine_.device_->hooks.user};
  const std::string place(reinterpret_cast<const char*>(from), sizeof from);
  const std::string where = std::to_string(engine_.caps_.device_index) + ' ' + place;
  const std::string range = "range " + std::to_string(engine_.range_.kind) + ' ' +
                            device_text(engine_.range_.owners) + ' ' + device_text(engine_.range_.readers) +
                            ' ' + place;
  DPI_ASSIGN_OR_RETURN(claims_, BlockClaims::claim(&engine_.options_.environment->parts(), {where, range},
                                                   map, tables, [this] { return watch_->advance(0); }));
  // A tier without copies on a device lies in host memory, which all devices of a model read.
  const bool several = !table_token().empty();
  const std::string on = several ? "devices " + device_text(engine_.options_.devices) + ' ' + place : where;
  return engine_.options_.share || several ? claim_tier(on, tables) : Status();
}

/// After the tables: a load that has its tier waits for nothing, so loads cannot wait for each other in a
/// circle.
Status EngineLoader::claim_tier(const std::string& where, const std::vector<StoreTable>& tables) {
  std::string key = tier_key(tables, engine_.options_.tiers);
  if (key.empty() || engine_.options_.tiers.host_bytes == 0) return {};
  key += where + engine_.options_.rocksdb_reads + ' ' + engine_.options_.backend_dir;
  DPI_ASSIGN_OR_RETURN(tier_claim_,
                       TierClaim::claim(&engine_.options_.environment->parts(), std::move(key), [this] {
                         claims_.alive();
                         return watch_->advance(0);
                       }));
  return {};
}

Status EngineLoader::make_store() {
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<HotKeyFile> hot, open_hot_keys(*bundle_, engine_.options_));
  DPI_ASSIGN_OR_RETURN(PeerCopyOptions copies, peer_copies(*bundle_, engine_.plan_, engine_.options_));
  TableSharing sharing{engine_.device_, std::move(claims_), table_messages(LogLevel::kWarn), engine_.range_};
  engine_.store_ = make_resident_store(&engine_.api(), engine_.device(), engine_.options_.memory_limit,
                                       std::move(sharing), std::move(copies));
  const auto elsewhere = [this](const PlanTable& t) {
    return t.tiered || (t.source >= 0 && bundle_->manifest().tables[static_cast<size_t>(t.source)].external);
  };
  if (std::none_of(engine_.plan_.tables.begin(), engine_.plan_.tables.end(), elsewhere)) return {};
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<BundleRows> rows,
                       tier_rows(*bundle_, engine_.plan_, engine_.options_));
  DPI_ASSIGN_OR_RETURN(
      engine_.store_,
      make_tiered_store(std::move(engine_.store_), std::move(rows), engine_.options_.tiers, &engine_.api(),
                        engine_.device(), engine_.device_->hooks, std::move(hot),
                        {engine_.device_, std::move(tier_claim_), table_messages(LogLevel::kWarn),
                         beyond_forecast(), &engine_.log()}));
  return {};
}

Status EngineLoader::load_tables() {
  DPI_ASSIGN_OR_RETURN(engine_.forecast_, engine_.store_->plan(tables_of()));
  versions_.clear();
  LoadedKeys loaded;
  const KeyPlaces* const there = engine_.first_ != nullptr ? engine_.first_->keys() : nullptr;
  DPI_RETURN_IF_ERROR(
      load_plan_tables(*bundle_, engine_.plan_, *engine_.store_, watch_, &loaded, base_, there));
  engine_.keys_ = std::move(loaded.places);
  if (engine_.keys_ != nullptr) engine_.keys_held_ = HeldCount(engine_.options_.held, engine_.keys_->bytes());
  engine_.pads_ = std::move(loaded.pads);
  find_overlaid();
  if (engine_.keys() != nullptr) set_key_places(*engine_.keys(), &engine_.schema_);
  return {};
}

void EngineLoader::find_overlaid() {
  std::vector<RowGroup> groups = row_groups(*bundle_, engine_.plan_);
  for (size_t g = 0; g < groups.size(); ++g) {
    std::shared_ptr<RowVersion> version = engine_.store_->handover().row_version(static_cast<int32_t>(g));
    if (version != nullptr) engine_.overlaid_.push_back({std::move(groups[g]), std::move(version)});
  }
}

std::function<void(const std::string& text)> EngineLoader::table_messages(LogLevel level) const {
  return [engine = &engine_, level, name = bundle_->name()](const std::string& text) {
    engine->log().write(level, "tables", name + ": " + text);
  };
}

/// The part of the memory limit that the forecast leaves free. Call it when everything has been forecast.
std::function<uint64_t()> EngineLoader::beyond_forecast() const {
  if (engine_.options_.memory_limit == 0) return {};
  return [engine = &engine_] {
    return engine->options_.memory_limit - std::min(engine->options_.memory_limit, engine->memory_.most());
  };
}

}  // namespace dpi
