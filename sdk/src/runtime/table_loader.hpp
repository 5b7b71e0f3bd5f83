// Streams the bundle's tables to their storage, and computes the derived tables of the plan's folds on the
// way, so that each table is read once and never held whole beside its final place.
#pragma once

#include "base/status.hpp"
#include "bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "store/table_store.hpp"

namespace dpi {

/// Ingests every table of the plan and seals the store. Peak host memory beside the store: one block, and one
/// float per row and column of each derived table.
Status load_plan_tables(Bundle& bundle, const Plan& plan, TableStore& store);

}  // namespace dpi
