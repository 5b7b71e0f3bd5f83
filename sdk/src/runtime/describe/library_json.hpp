// What the library tells about itself, as JSON. With model_json.cpp beside it, this is the one place that
// writes the JSON of the C API; base/json_text.hpp does the writing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/abi/registry.hpp"

namespace dpi {

/// A third-party library that is part of this one, or needed by it.
struct LinkedLibrary {
  const char* name;
  const char* version;
  const char* license;  // SPDX
  const char* linked;   // "static", "shared"
};

struct BuildInfo {
  std::string version;
  std::string path;  // of the library's file
  std::string compiler;
  uint32_t backend_abi = 0;
  std::vector<LinkedLibrary> libraries;
};

std::string build_info_json(const BuildInfo& info);
std::string devices_json(const std::vector<backend::BackendReport>& reports);

}  // namespace dpi
