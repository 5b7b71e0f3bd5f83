// Which rows of a table are those of an older version of its bundle: the maps of the deltas between the two,
// one behind the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bundle/delta/row_map.hpp"

namespace dpi {

class RowHistory {
 public:
  struct Run {
    int64_t before = -1;  // the first row's number in the older version; -1 = it has none of these rows
    int64_t rows = 0;
  };

  /// Adds a delta's changes of the rows, the newest delta last; null = none.
  void add(std::shared_ptr<const RowMap> change) {
    if (change != nullptr) changes_.push_back(std::move(change));
  }
  bool same() const { return changes_.empty(); }

  /// Some row has another number than in the older version.
  bool moves(int64_t rows) const {
    for (int64_t row = 0; row < rows;) {
      const Run run = at(row, rows);
      if (run.before >= 0 && run.before != row) return true;
      row += run.rows;
    }
    return false;
  }

  /// Where row `row` of `rows` comes from, and how many behind it come from behind that.
  Run at(int64_t row, int64_t rows) const {
    Run run{row, rows - row};
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
      const RowMap::Run from = (*change)->at(run.before);
      run.rows = std::min(run.rows, from.rows);
      if (from.from != RowMap::From::kBase) return {-1, run.rows};
      run.before = from.first;
    }
    return run;
  }

 private:
  std::vector<std::shared_ptr<const RowMap>> changes_;
};

}  // namespace dpi
