// Finds and opens backends: `ref` and `cpu`, which are part of the library, and plugins (`cuda`, in tests
// `cuda_emu`), which are opened with dlopen from the folders of plugin_folders.hpp.
#pragma once

#include <string>
#include <vector>

#include "backend/abi/dpi_backend.h"
#include "backend/abi/plugin_folders.hpp"
#include "base/log.hpp"
#include "base/status.hpp"

namespace dpi::backend {

/// The built-in backends. Never null, static.
const dpi_backend_api* ref_backend();
const dpi_backend_api* cpu_backend();

struct BackendRequest {
  std::string device = "auto";  // ref, cpu, cuda, cuda_emu, auto
  std::string backend_dir;      // option backend_dir, or empty
  dpi_backend_options options{};
  LogSink* log = nullptr;  // hears of refused plugins, of a fallback, and what the backend has to say
};

/// An open device. The caller closes it with api->close(device).
struct OpenedBackend {
  const dpi_backend_api* api = nullptr;
  dpi_backend_device* device = nullptr;
  std::string note;  // auto: why something better was not taken; empty when nothing was refused
};

/// Fails with kNoDevice and all reasons when the named backend cannot be used; `auto` falls back to cpu and
/// says why in `note`.
Result<OpenedBackend> open_backend(const BackendRequest& request);

/// One line of `dpi devices`: a backend that could be used, or was refused and why.
struct BackendReport {
  std::string name;
  std::string path;  // of the plugin, empty for built-in ones
  bool usable = false;
  std::string reason;  // refused: why
  dpi_backend_caps caps{};
  std::vector<PluginFolder> folders;  // of a plugin: where it was looked for
};
/// Names of the backends that are part of the library.
std::vector<std::string> built_in_backends();

std::vector<BackendReport> list_backends(const std::string& backend_dir);

}  // namespace dpi::backend
