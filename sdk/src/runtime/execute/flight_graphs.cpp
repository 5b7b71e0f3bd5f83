#include "runtime/execute/flight_graphs.hpp"

#include <algorithm>

namespace dpi {

FlightGraphs::~FlightGraphs() {
  for (Entry& e : entries_) free_graph(&e);
}

void FlightGraphs::free_graph(Entry* e) {
  if (e->graph != nullptr) engine_.api().graph_free(engine_.device(), e->graph);
  e->graph = nullptr;
}

FlightGraphs::Entry* FlightGraphs::find(int64_t item_rows, int64_t shared_rows, bool has_map,
                                        uint64_t table_addresses) {
  Entry* found = nullptr;
  for (Entry& e : entries_) {
    if (e.item_rows == item_rows && e.shared_rows == shared_rows && e.has_map == has_map) found = &e;
  }
  if (found == nullptr) {
    if (entries_.size() < kMost) {
      found = &entries_.emplace_back();
    } else {
      found = &*std::min_element(entries_.begin(), entries_.end(),
                                 [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; });
      free_graph(found);
    }
    *found = {};
    found->item_rows = item_rows;
    found->shared_rows = shared_rows;
    found->has_map = has_map;
  }
  if (found->table_addresses != table_addresses) {
    free_graph(found);
    found->ran = false;
    found->failures = 0;
  }
  found->table_addresses = table_addresses;
  found->last_use = ++uses_;
  return found;
}

}  // namespace dpi
