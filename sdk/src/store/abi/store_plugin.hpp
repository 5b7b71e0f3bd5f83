// Opens a store that lives in a shared library of its own (libdpi_rocksdb.so, libdpi_redis.so), from the
// folders and under the rules of backends (backend/abi/plugin_folders.hpp), and says why it could not.
//
//   DPI_ASSIGN_OR_RETURN(const StorePlugin* plugin, find_store_plugin("rocksdb", backend_dir));
//   DPI_ASSIGN_OR_RETURN(auto source, PluginSource::open(*plugin, options));   // tiered/plugin_source.hpp
#pragma once

#include <string>

#include "backend/abi/plugin_file.hpp"
#include "base/status.hpp"
#include "store/abi/dpi_store.h"

namespace dpi::store {

/// Kept for the life of the process.
struct StorePlugin : backend::LoadedPlugin {
  dpi_store_api api{};
};

/// kNotFound when there is none that can be used: the text names every place that was looked at, why nothing
/// there was taken, and the package that has the plugin. kOutOfMemory when there was no memory to open it.
Result<const StorePlugin*> find_store_plugin(const std::string& name, const std::string& backend_dir);

}  // namespace dpi::store
