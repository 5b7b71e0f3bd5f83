// The names of codes in dpi.h.
#pragma once

#include <iterator>

#include "base/status.hpp"

namespace dpi {

/// "DPI_E_IO"; "DPI_E_UNKNOWN" of a number that is no code.
inline const char* code_name(Code code) {
  static const char* const kNames[] = {
      "DPI_OK",          "DPI_E_INVALID_ARGUMENT", "DPI_E_NOT_FOUND",     "DPI_E_IO",
      "DPI_E_BAD_MODEL", "DPI_E_UNSUPPORTED",      "DPI_E_OUT_OF_MEMORY", "DPI_E_DEVICE",
      "DPI_E_NO_DEVICE", "DPI_E_TIMEOUT",          "DPI_E_CANCELLED",     "DPI_E_QUEUE_FULL",
      "DPI_E_CLOSED",    "DPI_E_FORKED",           "DPI_E_VERSION",       "DPI_E_INTERNAL"};
  const auto at = static_cast<int32_t>(code);
  return at >= 0 && at < static_cast<int32_t>(std::size(kNames)) ? kNames[at] : "DPI_E_UNKNOWN";
}

}  // namespace dpi
