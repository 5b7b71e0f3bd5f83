#include "backend/abi/plugin.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>

namespace dpi::backend {
namespace {

std::string loader_error(const char* what) {
  const char* text = dlerror();
  return text != nullptr ? text : what;
}

// A library that is open. It is closed again unless it is kept: one that was asked for its score may not be.
struct Library {
  void* handle = nullptr;
  dpi_backend_layout_fn layout = nullptr;
  dpi_backend_init_fn init = nullptr;
  dpi_backend_score_fn score = nullptr;

  Library() = default;
  ~Library() {
    if (handle != nullptr) dlclose(handle);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  void keep() { handle = nullptr; }
};

bool open_library(const std::string& path, Library* lib, PluginRefusal* why) {
  errno = 0;
  lib->handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (lib->handle == nullptr) {
    why->out_of_memory = errno == ENOMEM;
    why->defective = !why->out_of_memory;
    why->reason = "cannot be opened: " + loader_error("dlopen failed");
    return false;
  }
  lib->layout = reinterpret_cast<dpi_backend_layout_fn>(dlsym(lib->handle, DPI_BACKEND_LAYOUT_SYMBOL));
  lib->init = reinterpret_cast<dpi_backend_init_fn>(dlsym(lib->handle, DPI_BACKEND_INIT_SYMBOL));
  lib->score = reinterpret_cast<dpi_backend_score_fn>(dlsym(lib->handle, DPI_BACKEND_SCORE_SYMBOL));
  if (lib->layout != nullptr && lib->init != nullptr && lib->score != nullptr) return true;
  why->reason = std::string("does not export ") + (lib->init == nullptr    ? DPI_BACKEND_INIT_SYMBOL
                                                   : lib->score == nullptr ? DPI_BACKEND_SCORE_SYMBOL
                                                                           : DPI_BACKEND_LAYOUT_SYMBOL);
  return false;
}

// Structs of another build, though of the same number, would be read wrongly: so this comes before all else.
bool same_layout(const Library& lib, std::string* reason) {
  const char* text = lib.layout();
  const std::string_view built = text != nullptr ? std::string_view(text, strnlen(text, 64)) : "";
  if (built == DPI_BACKEND_LAYOUT) return true;
  *reason = "was built for the backend interface '" + std::string(built) + "', not for '" +
            DPI_BACKEND_LAYOUT + "'";
  return false;
}

bool init_api(const Library& lib, const std::string& name, dpi_backend_api* api, std::string* reason) {
  const int32_t code = lib.init(DPI_BACKEND_ABI, api);
  const std::string versions =
      "has backend ABI " + std::to_string(api->abi_version) + ", expected " + std::to_string(DPI_BACKEND_ABI);
  if (api->abi_version != 0 && api->abi_version != DPI_BACKEND_ABI) {
    *reason = versions;
  } else if (code != 0) {
    *reason = "refused backend ABI " + std::to_string(DPI_BACKEND_ABI) + " with code " + std::to_string(code);
  } else if (api->abi_version != DPI_BACKEND_ABI) {
    *reason = versions;
  } else if (api->struct_size != sizeof(*api)) {
    *reason = "has an interface of " + std::to_string(api->struct_size) + " bytes, expected " +
              std::to_string(sizeof(*api));
  } else if (api->name == nullptr || name != api->name) {
    *reason = std::string("calls itself '") + (api->name != nullptr ? api->name : "") + "', expected '" +
              name + "'";
  } else {
    return true;
  }
  return false;
}

constexpr const char* kReplace = "replace the file or take it away";

/// The file that a path leads to, links followed, so that what is looked at is what is opened; "" and errno.
std::string real_file(const std::string& path) {
  errno = 0;
  const std::unique_ptr<char, decltype(&std::free)> found(realpath(path.c_str(), nullptr), &std::free);
  return found != nullptr ? found.get() : "";
}

/// Why a file, or the folder it really lies in, is not trusted; empty when both are.
std::string distrust_file(const std::string& path, const std::string& real, std::string* advice) {
  std::string reason = distrust(real, advice);
  if (!reason.empty() || real == path) return reason;
  const std::string folder = real.substr(0, std::max<size_t>(1, real.rfind('/')));
  reason = distrust(folder, advice);
  return reason.empty() ? reason : "is a link into " + folder + ", which " + reason;
}

// Loads one file; *why says why not.
std::unique_ptr<Plugin> load(const std::string& path, const std::string& name, PluginRefusal* why) {
  Library lib;
  auto plugin = std::make_unique<Plugin>();
  plugin->path = path;
  *why = {path, {}, kReplace, true, true, false};
  const std::string real = real_file(path);
  if (real.empty()) {
    why->out_of_memory = errno == ENOMEM;
    why->defective = !why->out_of_memory;
    why->reason = std::string("cannot be opened: ") + std::strerror(errno);
    return nullptr;
  }
  if (why->reason = distrust_file(path, real, &why->advice); !why->reason.empty()) return nullptr;
  why->advice = kReplace;
  if (!open_library(real, &lib, why)) return nullptr;
  if (!same_layout(lib, &why->reason)) return nullptr;
  if (!init_api(lib, name, &plugin->api, &why->reason)) return nullptr;
  char text[400] = "";
  lib.keep();
  plugin->score = lib.score(text, sizeof(text));
  text[sizeof(text) - 1] = '\0';
  if (plugin->score > 0) return plugin;
  why->defective = false;
  why->reason =
      std::string("cannot be used on this machine: ") + (text[0] != '\0' ? text : "no reason given");
  return nullptr;
}

// Loaded plugins by file, for the life of the process. A refused file is tried again: a driver may have come
// meanwhile.
struct Loaded {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Plugin>> plugins;
};

alignas(Loaded) std::byte g_room[sizeof(Loaded)];  // outlives every thread, and is never destroyed
std::atomic<Loaded*> g_loaded{nullptr};

void begin_anew() { g_loaded.store(new (g_room) Loaded); }

/// A forked child begins anew: a thread that it has not may have held the lock, and what a driver said to the
/// parent is not true of the child. (Not held across fork(): a driver that is being loaded may itself fork.)
/// It does so in the same place, without memory: fork() cannot fail for want of it.
Loaded& loaded() {
  static const bool kRegistered = [] {
    begin_anew();
    if (pthread_atfork(nullptr, nullptr, begin_anew) != 0) throw std::bad_alloc();  // its one reason
    return true;
  }();
  static_cast<void>(kRegistered);
  return *g_loaded.load();
}

}  // namespace

bool is_plugin_name(std::string_view name) {
  return !name.empty() && name.size() <= 32 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

std::string PluginSearch::reasons() const {
  std::string text;
  for (const PluginRefusal& r : refusals) text += (text.empty() ? "" : "; ") + r.path + ": " + r.reason;
  return text;
}

bool PluginSearch::out_of_memory() const {
  return std::any_of(refusals.begin(), refusals.end(),
                     [](const PluginRefusal& r) { return r.out_of_memory; });
}

PluginSearch find_plugin(const std::string& name, const std::string& backend_dir) {
  PluginSearch search;
  if (!is_plugin_name(name)) {
    search.refusals.push_back({"'" + name.substr(0, 64) + "'",
                               "is not a backend's name ([a-z0-9_], at most 32)", "", false, false, false});
    return search;
  }
  Loaded& all = loaded();
  const std::lock_guard lock(all.mutex);
  search.folders = plugin_folders(backend_dir);
  for (const PluginFolder& folder : search.folders) {
    if (!folder.advice.empty()) {
      const bool absolute = folder.path.starts_with('/');
      search.refusals.push_back({absolute ? folder.path : folder.origin + " '" + folder.path + "'",
                                 folder.problem, folder.advice, false, true, false});
      continue;
    }
    const std::string path = folder.path + "/libdpi_" + name + ".so";
    if (const auto it = all.plugins.find(path); it != all.plugins.end()) {
      search.plugin = it->second.get();
      return search;
    }
    if (access(path.c_str(), F_OK) != 0) {
      search.refusals.push_back(
          {path, std::string(std::strerror(errno)) + " (" + folder.origin + ")", "", false, false, false});
      continue;
    }
    PluginRefusal why;
    if (auto plugin = load(path, name, &why); plugin != nullptr) {
      search.plugin = (all.plugins[path] = std::move(plugin)).get();
      return search;
    }
    search.refusals.push_back(std::move(why));
  }
  return search;
}

}  // namespace dpi::backend
