// Rough work of one op per row, for choosing the longest path and the light branches. Only comparisons use
// it.
#pragma once

#include "ops/dims.hpp"
#include "ops/ops.hpp"

namespace dpi {

struct OpWork {
  double flops = 0;   // multiply-adds per row
  double floats = 0;  // floats read and written per row, weights left out
  /// Microseconds at a middling batch on a data-centre GPU: launch + arithmetic + memory.
  double time() const { return 2.0 + flops * 5e-5 + floats * 2e-3; }
};

namespace ops {

/// Inputs for an estimate. Elements are of one row; ids count as one.
struct OpSizes {
  const OpAttrs& attrs;
  Dims x;                  // of input 0
  Dims weight;             // of param 0, rank 0 without one
  double first_input = 0;  // elements of input 0, of all inputs, of all outputs, of all params
  double inputs = 0;
  double outputs = 0;
  double weights = 0;
};

}  // namespace ops
}  // namespace dpi
