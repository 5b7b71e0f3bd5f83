// When a place may be used again: base/epochs.hpp.
#pragma once

#include "base/epochs.hpp"

namespace dpi::tiered {

using dpi::EpochsT;

}  // namespace dpi::tiered
