#include "sdk/tools/dpi/commands/store_place.hpp"

#include "store/abi/store_plugin.hpp"

namespace dpi::tool {

namespace {

std::pair<std::string, std::string> setting_of(const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos) throw CommandError(kExitUsage, "--setting '" + text + "': expected key=value");
  return {text.substr(0, at), text.substr(at + 1)};
}

}  // namespace

void check_store(const Status& status) {
  if (status.ok()) return;
  const Code code = status.code();
  throw CommandError(code == Code::kInvalidArgument ? kExitUsage
                     : code == Code::kBadModel      ? kExitVerifyFailed
                                                    : kExitDevice,
                     status.message());
}

std::vector<std::pair<std::string, std::string>> store_settings(const StoreArgs& args) {
  if (args.rocksdb.empty() == args.redis.empty())
    throw CommandError(kExitUsage, "say where: one of --rocksdb FOLDER and --redis HOST:PORT");
  const bool rocksdb = !args.rocksdb.empty();
  std::vector<std::pair<std::string, std::string>> settings;
  settings.emplace_back(rocksdb ? "path" : "address", rocksdb ? args.rocksdb : args.redis);
  for (const std::string& s : args.settings) settings.push_back(setting_of(s));
  return settings;
}

std::unique_ptr<tiered::PluginSource> open_store(const StoreArgs& args, const tiered::StoreRequest& request) {
  const auto* plugin =
      take_store(store::find_store_plugin(args.rocksdb.empty() ? "redis" : "rocksdb", args.backend_dir));
  return take_store(tiered::PluginSource::open(*plugin, request));
}

}  // namespace dpi::tool
