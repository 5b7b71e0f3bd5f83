// A row of a tiered table that does not move.
#pragma once

#include <cstdint>

namespace dpi {

/// Kernels know a bag's padding as a number that is fixed in their op, so its row stays at one place. Places
/// count from 0 over all tables of a plan.
struct PinnedRow {
  int64_t row = 0;
  int32_t place = 0;
};

}  // namespace dpi
