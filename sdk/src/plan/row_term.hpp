// A term of a derived scalar: a number out of one row of one table.
#pragma once

#include <cstdint>
#include <vector>

namespace dpi {

struct RowTerm {
  enum class Kind : int32_t { kColumn, kDot };
  Kind kind = Kind::kColumn;
  int32_t table = -1;          // of the bundle
  int32_t column = 0;          // kColumn: which one
  float factor = 1;            // kColumn
  std::vector<float> weights;  // kDot: [dim of table]

  /// at(k): element k of the row as a float. One definition for rows that stream by and rows that arrive
  /// alone, so that both give the same bits.
  template <class At>
  double value(int64_t dim, At&& at) const {
    if (kind == Kind::kColumn) return static_cast<double>(factor) * at(column);
    double sum = 0;
    for (int64_t k = 0; k < dim; ++k) sum += static_cast<double>(weights[static_cast<size_t>(k)]) * at(k);
    return sum;
  }
};

/// The sum of its terms, which is rounded to float once.
using DerivedColumn = std::vector<RowTerm>;

}  // namespace dpi
