#include "backend/abi/registry.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/abi/backend_status.hpp"
#include "backend/abi/plugin.hpp"
#include "base/text.hpp"

namespace dpi::backend {
namespace {

const dpi_backend_api* built_in(const std::string& name) {
  if (name == "ref") return ref_backend();
  if (name == "cpu") return cpu_backend();
  return nullptr;
}

dpi_backend_options with_defaults(dpi_backend_options options) {
  options.struct_size = sizeof(options);
  if (options.isa == nullptr) options.isa = "auto";
  return options;
}

std::string text_of(const dpi_backend_error& err) {
  return std::string(err.message, strnlen(err.message, sizeof(err.message)));
}

Result<OpenedBackend> open_api(const dpi_backend_api* api, const dpi_backend_options& options) {
  OpenedBackend opened;
  opened.api = api;
  dpi_backend_error err{};
  const dpi_backend_options complete = with_defaults(options);
  const int32_t code = api->open(&complete, &opened.device, &err);
  if (code == 0) return opened;
  return backend_status(code, err, "backend '" + std::string(api->name) + "'");
}

void log_from_backend(void* sink, int32_t level, const char* component, const char* message) {
  static_cast<LogSink*>(sink)->write(static_cast<LogLevel>(level), component, message);
}

// A file that is there and no plugin, or a folder that is not trusted, deserves a word even when another one
// was found.
void log_refusals(const PluginSearch& search, LogSink* log) {
  for (const PluginRefusal& r : search.refusals) {
    if (log == nullptr || !r.defective) continue;
    log->write(LogLevel::kWarn, "plugin", r.path + " is not used: it " + r.reason + "; " + r.advice);
  }
}

// What to do about a name of which no folder has a file: install a package, or write another name.
std::string without_file(const std::string& name) {
  if (name == "cuda") return "its plugin is not installed, package libdpi1-cuda13 has it: ";
  static constexpr std::string_view kKnown[] = {"auto", "cpu", "cuda", "ref"};
  const std::string hint = name == "gpu"
                               ? " (a GPU of NVIDIA is device 'cuda', package libdpi1-cuda13 has it)"
                               : did_you_mean(name, kKnown);
  return "unknown device, expected auto, cpu, cuda or ref" + hint + ": ";
}

// Why there is no plugin of the name: what is to be done, then each place where it could lie.
std::string why_none(const PluginSearch& search, const std::string& name) {
  const auto& all = search.refusals;
  const bool file =
      std::any_of(all.begin(), all.end(), [](const PluginRefusal& r) { return r.file_found || r.defective; });
  return (file ? "" : without_file(name)) + search.reasons();
}

Result<OpenedBackend> open_named(const BackendRequest& request, const std::string& name) {
  dpi_backend_options options = request.options;
  if (request.log != nullptr) {
    options.log = log_from_backend;
    options.log_sink = request.log;
  }
  if (const dpi_backend_api* api = built_in(name); api != nullptr) return open_api(api, options);
  const PluginSearch search = find_plugin(name, request.backend_dir);
  log_refusals(search, request.log);
  if (search.plugin != nullptr) return open_api(&search.plugin->api, options);
  const bool memory = search.out_of_memory();
  return Status(memory ? Code::kOutOfMemory : Code::kNoDevice,
                "backend '" + name.substr(0, 64) + "' cannot be used: " + why_none(search, name));
}

// Opens the device for a moment to learn what it is.
BackendReport report_on(const dpi_backend_api* api, const std::string& path) {
  BackendReport r;
  r.name = api->name;
  r.path = path;
  dpi_backend_options options{};
  options.device_index = -1;
  auto opened = open_api(api, options);
  if (!opened.ok()) {
    r.reason = opened.status().message();
    return r;
  }
  dpi_backend_error err{};
  r.caps.struct_size = sizeof(r.caps);
  r.usable = api->caps(opened->device, &r.caps, &err) == 0;
  api->close(opened->device);  // before anything that may need memory
  if (!r.usable) r.reason = text_of(err);
  return r;
}

BackendReport report_on_plugin(const std::string& name, const std::string& backend_dir) {
  const PluginSearch search = find_plugin(name, backend_dir);
  BackendReport r;
  if (search.plugin != nullptr) {
    r = report_on(&search.plugin->api, search.plugin->path);
    r.folders = search.folders;
    return r;
  }
  r.name = name;
  r.folders = search.folders;
  r.reason = why_none(search, name);
  for (const PluginRefusal& refusal : search.refusals) {
    if (refusal.file_found && r.path.empty()) r.path = refusal.path;
  }
  return r;
}

}  // namespace

Result<OpenedBackend> open_backend(const BackendRequest& request) {
  if (request.device != "auto") return open_named(request, request.device);
  auto cuda = open_named(request, "cuda");
  if (cuda.ok()) return cuda;
  std::string note = cuda.status().message();
  const std::string told = "device=auto runs on cpu: " + note + "; option device=cpu asks for it outright";
  DPI_ASSIGN_OR_RETURN(OpenedBackend opened, open_named(request, "cpu"));
  opened.note = std::move(note);  // nothing may throw from here on: who would close the device?
  if (request.log != nullptr) request.log->write(LogLevel::kInfo, "device", told);
  return opened;
}

std::vector<std::string> built_in_backends() { return {ref_backend()->name, cpu_backend()->name}; }

std::vector<BackendReport> list_backends(const std::string& backend_dir) {
  std::vector<BackendReport> reports{report_on(ref_backend(), ""), report_on(cpu_backend(), ""),
                                     report_on_plugin("cuda", backend_dir)};
  // Test-only: worth a line where somebody built it.
  BackendReport emulated = report_on_plugin("cuda_emu", backend_dir);
  if (emulated.usable || !emulated.path.empty()) reports.push_back(std::move(emulated));
  return reports;
}

}  // namespace dpi::backend
