// Shared by the actions of `dpi store`: which store, and what its answers mean to the caller.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sdk/tools/dpi/commands/command.hpp"
#include "store/tiered/plugin_source.hpp"

namespace dpi::tool {

/// A refusal, as the command's exit: not the bundle's fault, unless rows differ.
void check_store(const Status& status);

template <class T>
T take_store(Result<T> result) {
  if (!result.ok()) check_store(result.status());
  return std::move(result).value();
}

/// The settings from --rocksdb, --redis and --setting.
std::vector<std::pair<std::string, std::string>> store_settings(const StoreArgs& args);
std::unique_ptr<tiered::PluginSource> open_store(const StoreArgs& args, const tiered::StoreRequest& request);

}  // namespace dpi::tool
