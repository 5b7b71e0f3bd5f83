// Finds and opens plugins of any kind (libdpi_<name>.so): backends (plugin.hpp) and stores
// (store/abi/store_plugin.hpp). The folders and whose files are trusted are those of plugin_folders.hpp. A
// kind says which exports it needs and how a file that is open becomes a plugin of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/abi/plugin_folders.hpp"

namespace dpi::backend {

/// [a-z0-9_]{1,32}: what a plugin may be called.
bool is_plugin_name(std::string_view name);

/// A plugin that said it can be used here. Never unloaded: a CUDA library cannot be closed safely after its
/// first call, and a plugin's function pointers may be anywhere.
struct LoadedPlugin {
  std::string path;
  virtual ~LoadedPlugin() = default;
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

/// A library that is open and has the exports of its kind. Closed again unless it is kept.
class PluginLibrary {
 public:
  PluginLibrary() = default;
  ~PluginLibrary();
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;

  bool open(const std::string& path, PluginRefusal* why);
  template <class Function>
  Function function(const char* symbol) const {
    return reinterpret_cast<Function>(find(symbol));
  }
  /// Once anything but its layout and its interface was asked for it may not be closed.
  void keep() { handle_ = nullptr; }

 private:
  void* find(const char* symbol) const;
  void* handle_ = nullptr;
};

struct PluginKind {
  const char* what = "";             // "backend": as texts have it
  const char* article = "";          // "a backend's"
  std::vector<const char*> exports;  // all are needed; the first that is missing is named
  const char* layout_symbol = "";    // const char* (*)(): which build of the interface, "4-0123456789abcdef"
  const char* layout = "";           // this build's
  std::unique_ptr<LoadedPlugin> (*load)(PluginLibrary&, const std::string& name,
                                        PluginRefusal* why) = nullptr;
};

/// The first members of every plugin's table of functions, as its init filled them.
struct PluginInterface {
  int32_t init_code = 0;
  uint32_t abi_version = 0;
  uint32_t struct_size = 0;
  const char* name = nullptr;
};

/// Is it the interface of this number, size and name? Else *reason says why not.
bool same_interface(const PluginKind& kind, const PluginInterface& found, uint32_t abi, size_t struct_size,
                    const std::string& name, std::string* reason);

struct PluginPlaces {
  std::vector<PluginRefusal> refusals;
  std::vector<PluginFolder> folders;  // all of them, in order

  /// "path: reason; path: reason"
  std::string reasons() const;
  /// A file may be a plugin, but there was no memory to open it.
  bool out_of_memory() const;
};

/// Searches the folders for libdpi_<name>.so and loads the first that is a plugin of the kind; null: *places
/// says why not. A name other than [a-z0-9_]{1,32} is refused. Safe from any thread; each file is loaded
/// once per process. `kind` lives as long as the process.
const LoadedPlugin* find_plugin_of(const PluginKind& kind, const std::string& name,
                                   const std::string& backend_dir, PluginPlaces* places);

}  // namespace dpi::backend
