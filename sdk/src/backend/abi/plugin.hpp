// Opens a backend that lives in a shared library of its own (libdpi_<name>.so), and says why it could not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "backend/abi/plugin_folders.hpp"
#include "base/status.hpp"

namespace dpi::backend {

/// [a-z0-9_]{1,32}: what a plugin may be called.
bool is_plugin_name(std::string_view name);

/// A loaded plugin that said it can be used here. Never unloaded: a CUDA library cannot be closed safely
/// after its first call, and its function pointers may be anywhere.
struct Plugin {
  dpi_backend_api api{};
  std::string path;
  int32_t score = 0;
};

/// One place that was tried in vain.
struct PluginRefusal {
  std::string path;
  std::string reason;  // a phrase with a verb
  std::string advice;
  bool file_found = false;
  bool defective = false;  // the file or folder itself is at fault, not this machine
  bool out_of_memory = false;
};

struct PluginSearch {
  const Plugin* plugin = nullptr;  // null: see refusals
  std::vector<PluginRefusal> refusals;
  std::vector<PluginFolder> folders;  // all of them, in order

  /// "path: reason; path: reason"
  std::string reasons() const;
  /// A file may be a plugin, but there was no memory to open it.
  bool out_of_memory() const;
};

/// Searches the folders (plugin_folders.hpp) for libdpi_<name>.so and loads the first that has both exports,
/// exactly this ABI version, the name `name` and a score above 0. A name other than [a-z0-9_]{1,32} is
/// refused. Safe from any thread; each file is loaded once per process.
PluginSearch find_plugin(const std::string& name, const std::string& backend_dir);

}  // namespace dpi::backend
