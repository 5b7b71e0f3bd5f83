// Streams the bundle's tables to their storage, and computes the derived tables of the plan's folds on the
// way, so that each table is read once and never held whole beside its final place.
#pragma once

#include <memory>

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "runtime/model/load_watch.hpp"
#include "store/key_places.hpp"
#include "store/table_store.hpp"

namespace dpi {

/// Gives float32 tables of the bundle the element type `type` (kF16, kBF16) in the plan; load_plan_tables
/// then rounds their rows, and derived tables are computed from the rounded ones. Tables whose rows a mask
/// rule inspects stay as they are.
void narrow_tables(kernels::DType type, Plan* plan);

/// The plan's tables as a store is told of them, in the plan's order. share: with what each is made of, by
/// the hashes that the bundle states, so that models of equal tables hold them together.
/// base: whose memory the tables that are the same there name, null = none. token: what tables are called
/// that would have no content (by `share`, or for want of a hash), so that only loads with this token share
/// them.
std::vector<StoreTable> store_tables(const Bundle& bundle, const Plan& plan, bool share,
                                     const LoadBase* base = nullptr, const std::string& token = {});

/// Ingests every table of the plan and seals the store: one stage of `watch`. Peak host memory beside the
/// store: table_loading_bytes. `keys` receives the indexes of the key sets, null when the plan has none or
/// they are there already.
Status load_plan_tables(Bundle& bundle, const Plan& plan, TableStore& store, LoadWatch* watch,
                        std::unique_ptr<KeyPlaces>* keys, const KeyPlaces* there = nullptr);

/// What a load by `threads` threads takes while rows stream in, beside the tables themselves: blocks, scales,
/// bits, staging, sums of derived tables that have more than one source.
uint64_t table_loading_bytes(const Bundle& bundle, const Plan& plan, bool on_device, int32_t threads);

}  // namespace dpi
