// The scalars that folds derive from a row of a tiered table. They lie behind the row at its place, and are
// computed when the row comes there: the bits that a resident derived table has, because the sums are the
// same ones (plan/row_term.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "store/table_store.hpp"
#include "store/tiered/arena.hpp"

namespace dpi {

class RowScalars {
 public:
  explicit RowScalars(tiered::TierTable row) : row_(std::move(row)) {}
  /// Behind those that were added before. Gives the offset of the first from the row's begin.
  int64_t add(const std::vector<DerivedColumn>& columns);
  int32_t count() const { return static_cast<int32_t>(columns_.size()); }
  /// row: as its source wrote it, with room behind, 4-byte aligned. Allocates nothing.
  void fill(std::byte* row) const;

 private:
  tiered::TierTable row_;
  std::vector<DerivedColumn> columns_;
};

/// Rows of i8, each with its scale behind it, as the host tier has them.
void join_scales(int32_t dim, std::span<const std::byte> rows, std::span<const float> scales,
                 std::vector<std::byte>* whole);

/// The tiered ones among a model's tables as the host tier has them: rows with their scalars.
std::vector<tiered::TierTable> tier_tables(const std::vector<StoreTable>& tables);

}  // namespace dpi
