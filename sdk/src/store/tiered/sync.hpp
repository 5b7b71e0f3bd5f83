// The policy of this folder's protocols: base/sync.hpp.
#pragma once

#include "base/sync.hpp"

namespace dpi::tiered {

using dpi::StdSync;

}  // namespace dpi::tiered
