#include "runtime/stream/abi/stream_plugin.hpp"

#include <memory>

#include "base/at_load.hpp"

namespace dpi::stream {
namespace {

std::unique_ptr<backend::LoadedPlugin> load_stream(backend::PluginLibrary& lib, const std::string& name,
                                                   backend::PluginRefusal* why);

const backend::PluginKind& stream_kind() {
  static const backend::PluginKind kind{"stream",
                                        "a stream's",
                                        {DPI_STREAM_INIT_SYMBOL, DPI_STREAM_LAYOUT_SYMBOL},
                                        DPI_STREAM_LAYOUT_SYMBOL,
                                        DPI_STREAM_LAYOUT,
                                        load_stream};
  return kind;
}

const AtLoad g_kind([] { stream_kind(); });

/// A table with a hole would be called into; the layout says only that the builds agree.
bool has_every_function(const dpi_stream_api& api) {
  return api.open != nullptr && api.close != nullptr && api.next != nullptr && api.wake != nullptr &&
         api.rewind != nullptr && api.commit != nullptr && api.read_state != nullptr;
}

std::unique_ptr<backend::LoadedPlugin> load_stream(backend::PluginLibrary& lib, const std::string& name,
                                                   backend::PluginRefusal* why) {
  auto plugin = std::make_unique<StreamPlugin>();
  dpi_stream_api& api = plugin->api;
  const int32_t code = lib.function<dpi_stream_init_fn>(DPI_STREAM_INIT_SYMBOL)(DPI_STREAM_ABI, &api);
  const backend::PluginInterface found{code, api.abi_version, api.struct_size, api.name};
  if (!same_interface(stream_kind(), found, DPI_STREAM_ABI, sizeof(api), name, &why->reason)) return nullptr;
  if (has_every_function(api)) return plugin;
  why->reason = "lacks a function of stream ABI " + std::to_string(DPI_STREAM_ABI);
  return nullptr;
}

}  // namespace

Result<const StreamPlugin*> find_stream_plugin(const std::string& name, const std::string& backend_dir) {
  backend::PluginPlaces places;
  const backend::LoadedPlugin* plugin = find_plugin_of(stream_kind(), name, backend_dir, &places);
  if (plugin != nullptr) return static_cast<const StreamPlugin*>(plugin);
  std::string text = "stream '" + name.substr(0, 64) + "' cannot be used: " + places.reasons();
  if (name == "kafka") text += "; package libdpi1-kafka has it";
  return Status(places.out_of_memory() ? Code::kOutOfMemory : Code::kNotFound, std::move(text));
}

}  // namespace dpi::stream
