// Errors of the device layer as a Status.
#pragma once

#include <string>

#include "base/status.hpp"

namespace dpi::backend {

/// A Status for a native code that is not 0: out of memory, or a failure of the device.
Status native_status(int code, const std::string& what);

}  // namespace dpi::backend
