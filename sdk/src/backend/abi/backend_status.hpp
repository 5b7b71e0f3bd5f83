// A Status of what a backend answered. Codes and texts may come from a plugin, so neither is trusted.
#pragma once

#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "backend/abi/dpi_backend.h"
#include "base/status.hpp"

namespace dpi {

/// OK for 0; else the code, or kInternal when it is none of ours, and "<what>: <message>". Never throws:
/// where there is no memory for the text the code must still reach who has work under way on a device.
inline Status backend_status(int32_t code, const dpi_backend_error& err, std::string_view what) noexcept {
  if (code == 0) return {};
  const bool known = code > 0 && code <= static_cast<int32_t>(Code::kInternal);
  const Code kind = known ? static_cast<Code>(code) : Code::kInternal;
  try {
    const std::string text(err.message, strnlen(err.message, sizeof err.message));
    return Status(kind, std::string(what) + ": " + text).native(err.native_code);
  } catch (const std::bad_alloc&) {
    return Status(kind, "no text").native(err.native_code);  // short enough to need no memory
  }
}

}  // namespace dpi
