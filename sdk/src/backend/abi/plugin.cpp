#include "backend/abi/plugin.hpp"

#include <memory>

#include "base/at_load.hpp"

namespace dpi::backend {
namespace {

std::unique_ptr<LoadedPlugin> load_backend(PluginLibrary& lib, const std::string& name, PluginRefusal* why);

const PluginKind& backend_kind() {
  static const PluginKind kind{"backend",
                               "a backend's",
                               {DPI_BACKEND_INIT_SYMBOL, DPI_BACKEND_SCORE_SYMBOL, DPI_BACKEND_LAYOUT_SYMBOL},
                               DPI_BACKEND_LAYOUT_SYMBOL,
                               DPI_BACKEND_LAYOUT,
                               load_backend};
  return kind;
}

const AtLoad g_kind([] { backend_kind(); });

std::unique_ptr<LoadedPlugin> load_backend(PluginLibrary& lib, const std::string& name, PluginRefusal* why) {
  auto plugin = std::make_unique<Plugin>();
  dpi_backend_api& api = plugin->api;
  const int32_t code = lib.function<dpi_backend_init_fn>(DPI_BACKEND_INIT_SYMBOL)(DPI_BACKEND_ABI, &api);
  const PluginInterface found{code, api.abi_version, api.struct_size, api.name};
  if (!same_interface(backend_kind(), found, DPI_BACKEND_ABI, sizeof(api), name, &why->reason))
    return nullptr;
  char text[400] = "";
  const auto score = lib.function<dpi_backend_score_fn>(DPI_BACKEND_SCORE_SYMBOL);
  lib.keep();
  plugin->score = score(text, sizeof(text));
  text[sizeof(text) - 1] = '\0';
  if (plugin->score > 0) return plugin;
  why->defective = false;
  why->reason =
      std::string("cannot be used on this machine: ") + (text[0] != '\0' ? text : "no reason given");
  return nullptr;
}

}  // namespace

PluginSearch find_plugin(const std::string& name, const std::string& backend_dir) {
  PluginSearch search;
  search.plugin = static_cast<const Plugin*>(find_plugin_of(backend_kind(), name, backend_dir, &search));
  return search;
}

}  // namespace dpi::backend
