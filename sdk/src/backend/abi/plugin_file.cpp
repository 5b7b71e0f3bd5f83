#include "backend/abi/plugin_file.hpp"

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
#include <mutex>
#include <new>

#include "base/at_load.hpp"

namespace dpi::backend {
namespace {

std::string loader_error(const char* what) {
  const char* text = dlerror();
  return text != nullptr ? text : what;
}

bool has_exports(const PluginKind& kind, const PluginLibrary& lib, std::string* reason) {
  for (const char* symbol : kind.exports) {
    if (lib.function<void (*)()>(symbol) != nullptr) continue;
    *reason = std::string("does not export ") + symbol;
    return false;
  }
  return true;
}

// Structs of another build, though of the same number, would be read wrongly: so this comes before all else.
bool same_layout(const PluginKind& kind, const PluginLibrary& lib, std::string* reason) {
  const char* text = lib.function<const char* (*)()>(kind.layout_symbol)();
  const std::string_view built = text != nullptr ? std::string_view(text, strnlen(text, 64)) : "";
  if (built == kind.layout) return true;
  *reason = std::string("was built for the ") + kind.what + " interface '" + std::string(built) +
            "', not for '" + kind.layout + "'";
  return false;
}

constexpr const char* kReplace = "replace the file or remove it";

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
std::unique_ptr<LoadedPlugin> load(const PluginKind& kind, const std::string& path, const std::string& name,
                                   PluginRefusal* why) {
  PluginLibrary lib;
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
  if (!lib.open(real, why)) return nullptr;
  if (!has_exports(kind, lib, &why->reason) || !same_layout(kind, lib, &why->reason)) return nullptr;
  auto plugin = kind.load(lib, name, why);
  if (plugin == nullptr) return nullptr;
  plugin->path = path;
  lib.keep();
  return plugin;
}

// Loaded plugins by kind and file, for the life of the process. A refused file is tried again: a driver may
// have come meanwhile.
struct Loaded {
  std::mutex mutex;
  std::map<std::pair<const PluginKind*, std::string>, std::unique_ptr<LoadedPlugin>> plugins;
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

const AtLoad g_empty([] { loaded(); });

/// A folder that nothing is loaded from.
PluginRefusal refused_folder(const PluginFolder& folder) {
  const bool absolute = folder.path.starts_with('/');
  return {absolute ? folder.path : folder.origin + " '" + folder.path + "'",
          folder.problem,
          folder.advice,
          false,
          true,
          false};
}

}  // namespace

PluginLibrary::~PluginLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

bool PluginLibrary::open(const std::string& path, PluginRefusal* why) {
  errno = 0;
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ != nullptr) return true;
  why->out_of_memory = errno == ENOMEM;
  why->defective = !why->out_of_memory;
  why->reason = "cannot be opened: " + loader_error("dlopen failed");
  return false;
}

void* PluginLibrary::find(const char* symbol) const { return dlsym(handle_, symbol); }

bool is_plugin_name(std::string_view name) {
  return !name.empty() && name.size() <= 32 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

bool same_interface(const PluginKind& kind, const PluginInterface& found, uint32_t abi, size_t struct_size,
                    const std::string& name, std::string* reason) {
  const std::string abi_of_kind = std::string(kind.what) + " ABI ";
  const std::string versions =
      "has " + abi_of_kind + std::to_string(found.abi_version) + ", expected " + std::to_string(abi);
  if (found.abi_version != 0 && found.abi_version != abi) {
    *reason = versions;
  } else if (found.init_code != 0) {
    *reason =
        "refused " + abi_of_kind + std::to_string(abi) + " with code " + std::to_string(found.init_code);
  } else if (found.abi_version != abi) {
    *reason = versions;
  } else if (found.struct_size != struct_size) {
    *reason = "has an interface of " + std::to_string(found.struct_size) + " bytes, expected " +
              std::to_string(struct_size);
  } else if (found.name == nullptr || name != found.name) {
    *reason = std::string("calls itself '") + (found.name != nullptr ? found.name : "") + "', expected '" +
              name + "'";
  } else {
    return true;
  }
  return false;
}

std::string PluginPlaces::reasons() const {
  std::string text;
  for (const PluginRefusal& r : refusals) text += (text.empty() ? "" : "; ") + r.path + ": " + r.reason;
  return text;
}

bool PluginPlaces::out_of_memory() const {
  return std::any_of(refusals.begin(), refusals.end(),
                     [](const PluginRefusal& r) { return r.out_of_memory; });
}

const LoadedPlugin* find_plugin_of(const PluginKind& kind, const std::string& name,
                                   const std::string& backend_dir, PluginPlaces* places) {
  if (!is_plugin_name(name)) {
    places->refusals.push_back({"'" + name.substr(0, 64) + "'",
                                std::string("is not ") + kind.article + " name ([a-z0-9_], at most 32)", "",
                                false, false, false});
    return nullptr;
  }
  Loaded& all = loaded();
  const std::lock_guard lock(all.mutex);
  places->folders = plugin_folders(backend_dir);
  for (const PluginFolder& folder : places->folders) {
    if (!folder.advice.empty()) {
      places->refusals.push_back(refused_folder(folder));
      continue;
    }
    const std::string path = folder.path + "/libdpi_" + name + ".so";
    const std::pair key(&kind, path);
    if (const auto it = all.plugins.find(key); it != all.plugins.end()) return it->second.get();
    if (access(path.c_str(), F_OK) != 0) {
      places->refusals.push_back(
          {path, std::string(std::strerror(errno)) + " (" + folder.origin + ")", "", false, false, false});
      continue;
    }
    PluginRefusal why;
    if (auto plugin = load(kind, path, name, &why); plugin != nullptr) {
      return (all.plugins[key] = std::move(plugin)).get();
    }
    places->refusals.push_back(std::move(why));
  }
  return nullptr;
}

}  // namespace dpi::backend
