// The row that stands for one that is not there.
#pragma once

#include <cstddef>
#include <vector>

#include "store/host_tier/bundle_rows.hpp"
#include "store/tiered/arena.hpp"

namespace dpi {

/// What absent keys of a table get, and under policy default rows that are late: its own default row where it
/// has one (in i8 as the exporter writes rows), else `fill` in every column.
std::vector<std::byte> default_row(const tiered::TierTable& row, const BundleTable& table, float fill);

}  // namespace dpi
