// Opens a stream's plugin (libdpi_kafka.so), from the folders and under the rules of backends
// (backend/abi/plugin_folders.hpp), and says why it could not.
#pragma once

#include <string>

#include "backend/abi/plugin_file.hpp"
#include "base/status.hpp"
#include "runtime/stream/abi/dpi_stream.h"

namespace dpi::stream {

/// Kept for the life of the process.
struct StreamPlugin : backend::LoadedPlugin {
  dpi_stream_api api{};
};

/// kNotFound when there is none that can be used: the text names every place that was looked at, why nothing
/// there was taken, and the package that has the plugin. kOutOfMemory when there was no memory to open it.
Result<const StreamPlugin*> find_stream_plugin(const std::string& name, const std::string& backend_dir);

}  // namespace dpi::stream
