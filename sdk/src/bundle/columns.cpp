#include "bundle/manifest.hpp"

namespace dpi {

BatchColumns columns_of(const std::vector<FeatureSpec>& features) {
  BatchColumns l;
  for (const FeatureSpec& f : features) {
    const bool shared = f.space == RowSpace::kShared;
    int32_t& part_slots = shared ? l.n_shared_slots : l.n_item_slots;
    int32_t& part_columns = shared ? l.n_shared_columns : l.n_item_columns;
    const int32_t slot = f.is_slot() ? l.n_slots++ : -1;
    const int32_t part_slot = f.is_slot() ? part_slots++ : -1;
    const int32_t column = f.is_slot() ? -1 : l.n_columns;
    const int32_t part_column = f.is_slot() ? -1 : part_columns;
    if (!f.is_slot()) {
      l.n_columns += static_cast<int32_t>(f.dim);
      part_columns += static_cast<int32_t>(f.dim);
    }
    l.slot_of_feature.push_back(slot);
    l.column_of_feature.push_back(column);
    l.item_slot_of_feature.push_back(shared ? -1 : part_slot);
    l.shared_slot_of_feature.push_back(shared ? part_slot : -1);
    l.item_column_of_feature.push_back(shared ? -1 : part_column);
    l.shared_column_of_feature.push_back(shared ? part_column : -1);
  }
  return l;
}

}  // namespace dpi
