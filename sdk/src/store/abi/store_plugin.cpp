#include "store/abi/store_plugin.hpp"

#include <memory>

#include "base/at_load.hpp"

namespace dpi::store {
namespace {

std::unique_ptr<backend::LoadedPlugin> load_store(backend::PluginLibrary& lib, const std::string& name,
                                                  backend::PluginRefusal* why);

const backend::PluginKind& store_kind() {
  static const backend::PluginKind kind{"store",
                                        "a store's",
                                        {DPI_STORE_INIT_SYMBOL, DPI_STORE_LAYOUT_SYMBOL},
                                        DPI_STORE_LAYOUT_SYMBOL,
                                        DPI_STORE_LAYOUT,
                                        load_store};
  return kind;
}

const AtLoad g_kind([] { store_kind(); });

/// A table with a hole would be called into; the layout says only that the builds agree.
bool has_every_function(const dpi_store_api& api) {
  return api.settings != nullptr && api.open != nullptr && api.close != nullptr && api.fetch != nullptr &&
         api.write != nullptr && api.complete != nullptr && api.stat != nullptr && api.drop != nullptr &&
         api.begin_update != nullptr && api.update != nullptr && api.end_update != nullptr &&
         api.count != nullptr && api.begin_repair != nullptr && api.repair != nullptr &&
         api.end_repair != nullptr;
}

std::unique_ptr<backend::LoadedPlugin> load_store(backend::PluginLibrary& lib, const std::string& name,
                                                  backend::PluginRefusal* why) {
  auto plugin = std::make_unique<StorePlugin>();
  dpi_store_api& api = plugin->api;
  const int32_t code = lib.function<dpi_store_init_fn>(DPI_STORE_INIT_SYMBOL)(DPI_STORE_ABI, &api);
  const backend::PluginInterface found{code, api.abi_version, api.struct_size, api.name};
  if (!same_interface(store_kind(), found, DPI_STORE_ABI, sizeof(api), name, &why->reason)) return nullptr;
  if (has_every_function(api)) return plugin;
  why->reason = "lacks a function of store ABI " + std::to_string(DPI_STORE_ABI);
  return nullptr;
}

}  // namespace

Result<const StorePlugin*> find_store_plugin(const std::string& name, const std::string& backend_dir) {
  backend::PluginPlaces places;
  const backend::LoadedPlugin* plugin = find_plugin_of(store_kind(), name, backend_dir, &places);
  if (plugin != nullptr) return static_cast<const StorePlugin*>(plugin);
  std::string text = "store '" + name.substr(0, 64) + "' cannot be used: " + places.reasons();
  if (name == "rocksdb" || name == "redis") text += "; package libdpi1-" + name + " has it";
  return Status(places.out_of_memory() ? Code::kOutOfMemory : Code::kNotFound, std::move(text));
}

}  // namespace dpi::store
