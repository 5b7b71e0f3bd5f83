// Opens a backend that lives in a shared library of its own (libdpi_<name>.so), and says why it could not.
//
// Folders, in this order: option backend_dir, environment DPI_BACKEND_DIR (not in set-user-id programs), the
// folder compiled in, the folder of the running library. Each must be an absolute path; the current directory
// is never looked at.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "base/status.hpp"

namespace dpi::backend {

/// [a-z0-9_]{1,32}: what a plugin may be called.
bool is_plugin_name(std::string_view name);

struct PluginFolder {
  std::string path;
  std::string origin;  // "option backend_dir", "DPI_BACKEND_DIR", ...
};

/// The folders that are searched; relative ones are kept, and refused with their origin when they are tried.
std::vector<PluginFolder> plugin_folders(const std::string& backend_dir);

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
  std::string reason;
  bool file_found = false;
  bool defective = false;  // the file itself is at fault, not this machine
};

struct PluginSearch {
  const Plugin* plugin = nullptr;  // null: see refusals
  std::vector<PluginRefusal> refusals;

  /// "path: reason; path: reason"
  std::string reasons() const;
};

/// Searches the folders for libdpi_<name>.so and loads the first that has both exports, exactly this ABI
/// version, the name `name` and a score above 0. A name other than [a-z0-9_]{1,32} is refused. Safe from any
/// thread; each file is loaded once per process.
PluginSearch find_plugin(const std::string& name, const std::string& backend_dir);

}  // namespace dpi::backend
