// Sorts a delta's data sets by what they are of the new bundle (weights/DELTA.md part 3) and checks types,
// shapes and lists of rows and keys, as far as that needs no base.
#pragma once

#include <functional>
#include <vector>

#include "base/status.hpp"
#include "bundle/delta.hpp"

namespace dpi {

struct DeltaParts {
  std::vector<TableDelta> tables;
  std::vector<KeySetDelta> key_sets;
  std::vector<const DataSetInfo*> arrays;
};

using ReadI64 = std::function<Result<std::vector<int64_t>>(const DataSetInfo&)>;

/// `data_sets` are the delta's and must stay where they are; `read` gives one's values, digest checked. Texts
/// begin with the data set's path.
Result<DeltaParts> sort_delta_data(const std::vector<DataSetInfo>& data_sets, const Bundle& result,
                                   const ReadI64& read);

}  // namespace dpi
