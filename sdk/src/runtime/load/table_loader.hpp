// Streams the bundle's tables to their storage, and computes the derived tables of the plan's folds on the
// way, so that each table is read once and never held whole beside its final place.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "runtime/load/load_watch.hpp"
#include "store/resident/key_places.hpp"
#include "store/table_store.hpp"

namespace dpi {

/// Gives float32 tables of the bundle the element type `type` (kF16, kBF16) in the plan; load_plan_tables
/// then rounds their rows, and derived tables are computed from the rounded ones. Tables whose rows a mask
/// rule inspects stay as they are.
void narrow_tables(kernels::DType type, Plan* plan);

/// The plan's tables as a store is told of them, in the plan's order. share: with what each is made of, by
/// the hashes that the bundle states, so that models of equal tables hold them together.
/// base: whose memory the tables that are there already name, null = none.
/// spare_percent: of a row group's rows, that are kept free behind them (row_groups.hpp).
/// token: what tables are called that would have no content (by `share`, or for want of a hash), so that only
/// loads with this token share them: of a model on several devices, which keeps no rows free.
std::vector<StoreTable> store_tables(const Bundle& bundle, const Plan& plan, bool share,
                                     const LoadBase* base = nullptr, int64_t spare_percent = 0,
                                     const std::string& token = {});
/// The base, where its plan has the same tables; else null.
const LoadBase* same_plan(const Plan& plan, const LoadBase* base);

/// Where keys are looked for, and by table of the bundle the row that each of its pad rows is a copy of.
struct LoadedKeys {
  std::unique_ptr<KeyPlaces> places;
  std::vector<std::vector<int64_t>> pads;
};

/// Ingests every table of the plan and seals the store: one stage of `watch`. Peak host memory beside the
/// store: table_loading_bytes. `keys` receives the indexes of the key sets, null when the plan has none or
/// they are there already. base: as store_tables had it.
Status load_plan_tables(Bundle& bundle, const Plan& plan, TableStore& store, LoadWatch* watch,
                        LoadedKeys* keys, const LoadBase* base = nullptr, const KeyPlaces* there = nullptr);

/// Memory of a load by `threads` threads while rows stream in, beside the tables themselves: blocks, scales,
/// bits, staging, sums of derived tables that have more than one source.
uint64_t table_loading_bytes(const Bundle& bundle, const Plan& plan, bool on_device, int32_t threads);

}  // namespace dpi
