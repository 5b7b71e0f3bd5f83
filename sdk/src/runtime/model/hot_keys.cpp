#include "runtime/model/hot_keys.hpp"

#include <utility>

namespace dpi {

Result<std::unique_ptr<HotKeyFile>> open_hot_keys(const Bundle& bundle, const ModelOptions& options) {
  if (options.tiers.hot_keys.empty()) return std::unique_ptr<HotKeyFile>();
  if (options.tiers.host_bytes == 0)
    return invalid_argument(bundle.name() +
                            ": option 'store.hot_keys' fills a host tier, and there is none: set "
                            "'store.host_bytes'");
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<HotKeyFile> list, HotKeyFile::open(options.tiers.hot_keys));
  if (Status own = list->check_against(bundle); !own.ok()) return std::move(own).within(bundle.name());
  return list;
}

}  // namespace dpi
