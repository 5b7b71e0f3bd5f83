#include "runtime/model/hot_keys.hpp"

namespace dpi {

bool has_hot_keys(const Bundle& bundle, const ModelOptions& options) {
  if (options.tiers.host_bytes == 0 || options.tiers.hot_keys == TierOptions::kNoHotKeys) return false;
  return !options.tiers.hot_keys.empty() || !bundle.manifest().hot_keys.empty();
}

Result<std::unique_ptr<HotKeyFile>> open_hot_keys(const Bundle& bundle, const ModelOptions& options) {
  if (options.tiers.hot_keys == TierOptions::kNoHotKeys) return std::unique_ptr<HotKeyFile>();
  if (options.tiers.hot_keys.empty())
    return options.tiers.host_bytes > 0 ? HotKeyFile::of_bundle(bundle) : std::unique_ptr<HotKeyFile>();
  if (options.tiers.host_bytes == 0)
    return invalid_argument(bundle.name() +
                            ": option 'store.hot_keys' fills a host tier, and there is none: set "
                            "'store.host_bytes'");
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<HotKeyFile> list,
                       HotKeyFile::open(options.tiers.hot_keys, bundle.name()));
  DPI_RETURN_IF_ERROR(list->check_against(bundle));
  return list;
}

}  // namespace dpi
