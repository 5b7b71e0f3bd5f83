// Helpers of the passes that keep work on shared rows: values side by side, and repeated for items.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "plan/passes/passes.hpp"

namespace dpi::plan {

/// The shared value that v repeats for the item rows, or -1.
int32_t repeated_value(const Plan& plan, const Index& index, int32_t v);

/// Columns of a matrix that one value fills.
struct Columns {
  int32_t value = -1;  // in its own row space
  int64_t begin = 0;   // in the matrix
};

/// The parts of a matrix of item rows, each in the order of its columns.
struct RowParts {
  std::vector<Columns> shared;
  std::vector<Columns> items;
  int64_t shared_width = 0;
  bool varies = false;  // an item's part is no constant
};
RowParts row_parts(const Plan& plan, const Index& index, int32_t matrix);

/// Adds ops to a plan; asked twice for the same values it gives the same result.
class RowJoiner {
 public:
  explicit RowJoiner(Plan& plan) : p_(plan) {}

  /// The columns, constants among them, as one vector of this row space.
  int32_t join(const std::vector<Columns>& columns, RowSpace space, const std::string& name);
  /// A shared value repeated for the item rows.
  int32_t repeat(int32_t value);

 private:
  int32_t flat(int32_t value);

  Plan& p_;
  std::map<std::vector<int32_t>, int32_t> joined_;
  std::map<int32_t, int32_t> repeated_;
};

}  // namespace dpi::plan
