// The parts of a schema that a delta may not change (weights/DELTA.md part 4).
#pragma once

#include "base/status.hpp"
#include "bundle/bundle.hpp"

namespace dpi {

/// Is `next` a later version of the model that `base` is? kBadModel names what differs that may not.
Status check_same_schema(const Bundle& base, const Bundle& next);

}  // namespace dpi
