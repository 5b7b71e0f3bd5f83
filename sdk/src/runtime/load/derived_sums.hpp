// Processing of a bundle's rows on their way to a store: narrowed, decoded, summed to derived columns. The
// same code serves rows that stream by (table_loader.cpp) and rows that a delta changes (table_patch.cpp), so
// that both give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "bundle/manifest.hpp"
#include "plan/plan.hpp"

namespace dpi {

/// Sums of a derived table while its sources stream by: one per row and column, a handful of terms each. With
/// one source a block's sums are complete when the block has been seen, and go to the store at once; else
/// they are kept until all have come.
struct DerivedSums {
  int32_t table = -1;   // of the plan
  int32_t source = -1;  // the only one, or -1
  int64_t first = 0;    // row of sums[0]
  std::vector<double> sums;
};

/// The one source of a derived table, or -1 when it has several.
int32_t only_source(const PlanTable& t);
/// Some term of the derived table is of table `source` of the bundle.
bool is_derived_from(const PlanTable& t, int32_t source);

/// Rows [first, first + n) of table `source`, decoded to `rows` [n, dim]: their part of the sums of `t`, the
/// table that `d` is of. Rows beyond those of the derived table are left out.
void add_terms(const PlanTable& t, int32_t source, const float* rows, int64_t first, int64_t n, int64_t dim,
               DerivedSums* d);

/// Rows of a bundle's table, stored as `stored` [n], as floats. scales: of row 0 of them, or null.
void decode_rows(const TableSpec& spec, kernels::DType stored, int64_t n, std::span<const std::byte> bytes,
                 const float* scales, std::vector<float>* rows);

/// Float32 rows in 16 bits.
class RowNarrower {
 public:
  /// Replaces a block of rows from row `first` by the same in `type`, which stays until the next one.
  /// kUnsupported names a number that it cannot hold.
  Status narrow(const TableSpec& spec, kernels::DType type, int64_t first, std::span<const std::byte>* bytes);

 private:
  std::vector<uint16_t> narrowed_;
};

}  // namespace dpi
