// Opens a backend that lives in a shared library of its own (libdpi_<name>.so), and says why it could not.
#pragma once

#include <string>

#include "backend/abi/dpi_backend.h"
#include "backend/abi/plugin_file.hpp"

namespace dpi::backend {

struct Plugin : LoadedPlugin {
  dpi_backend_api api{};
  int32_t score = 0;
};

struct PluginSearch : PluginPlaces {
  const Plugin* plugin = nullptr;  // null: see refusals
};

/// The first that has all exports, exactly this ABI version, the name `name` and a score above 0
/// (find_plugin_of).
PluginSearch find_plugin(const std::string& name, const std::string& backend_dir);

}  // namespace dpi::backend
