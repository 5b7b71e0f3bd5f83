// Tables that the same ids look up. A row of one of them that lies elsewhere (store/resident/spare_rows.hpp)
// is asked for under another number, so it lies there in all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bundle/bundle.hpp"
#include "plan/plan.hpp"
#include "runtime/options/options.hpp"
#include "store/table_store.hpp"

namespace dpi {

struct RowGroup {
  std::vector<int32_t> tables;    // of the plan
  std::vector<int32_t> features;  // whose ids are rows of them
  std::vector<int64_t> fixed;     // rows that ops know by their numbers: padding
};

/// Groups that may have spare rows: with a table that is large, as many rows in each, no row of which a mask
/// looks at, and ids that nothing but lookups reads.
std::vector<RowGroup> row_groups(const Bundle& bundle, const Plan& plan);

/// Gives the tables of each group of which few rows change the version of the base with those elsewhere.
/// tables: as store_tables made them with this base. Of the others `note` hears why.
void take_rows_over(const Bundle& bundle, const Plan& plan, const LoadBase& base,
                    const std::function<void(const std::string& text)>& note,
                    std::vector<StoreTable>* tables);

}  // namespace dpi
