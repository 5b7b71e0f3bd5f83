// Where the rows of a new data set come from: the delta, the base, or nowhere (zeros). One map serves all
// data sets of a table.
#pragma once

#include <cstdint>
#include <vector>

namespace dpi {

class RowMap {
 public:
  enum class From { kBase, kDelta, kZeros };
  struct Run {
    From from = From::kBase;
    int64_t first = 0;  // there
    int64_t rows = 0;
  };

  /// Numbers of new rows: `set` (the k-th is row k of the delta) and `zeros`. `added`, of set's: new rows
  /// that push those of the base behind. `gone`: rows of the base that are not in the new one. All rise; what
  /// is neither set nor zeros has a row of the base.
  RowMap(int64_t rows, std::vector<int64_t> set, std::vector<int64_t> zeros, std::vector<int64_t> added,
         const std::vector<int64_t>& gone);
  /// Every row from the delta.
  static RowMap whole(int64_t rows) {
    RowMap map(rows, {}, {}, {}, {});
    map.whole_ = true;
    return map;
  }

  /// Where row `row` comes from, and how many behind it come from the rows behind that. row < rows().
  Run at(int64_t row) const;
  int64_t rows() const { return rows_; }

 private:
  int64_t rows_;
  bool whole_ = false;
  std::vector<int64_t> set_, zeros_, added_;
  std::vector<int64_t> gone_after_;  // gone[i] - i: how many rows of the base that stay come before gone[i]
};

}  // namespace dpi
