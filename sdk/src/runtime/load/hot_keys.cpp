#include "runtime/load/hot_keys.hpp"

#include <algorithm>

#include "runtime/load/derived_sums.hpp"

namespace dpi {

bool has_hot_keys(const Bundle& bundle, const ModelOptions& options) {
  if (options.tiers.host_bytes == 0 || options.tiers.hot_keys == TierOptions::kNoHotKeys) return false;
  return !options.tiers.hot_keys.empty() || !bundle.manifest().hot_keys.empty();
}

Result<std::unique_ptr<HotKeyFile>> open_hot_keys(const Bundle& bundle, const ModelOptions& options) {
  if (options.tiers.hot_keys == TierOptions::kNoHotKeys) return std::unique_ptr<HotKeyFile>();
  const bool used = options.tiers.host_bytes > 0 || options.peer_copy_bytes > 0;
  if (options.tiers.hot_keys.empty())
    return used ? HotKeyFile::of_bundle(bundle) : std::unique_ptr<HotKeyFile>();
  if (!used)
    return invalid_argument(
        bundle.name() +
        ": option 'store.hot_keys' fills a host tier or copies of other devices' rows, and "
        "there are none: set 'store.host_bytes' or 'store.peer_copy_bytes'");
  DPI_ASSIGN_OR_RETURN(std::unique_ptr<HotKeyFile> list,
                       HotKeyFile::open(options.tiers.hot_keys, bundle.name()));
  DPI_RETURN_IF_ERROR(list->check_against(bundle));
  return list;
}

Result<PeerCopyOptions> peer_copies(const Bundle& bundle, const Plan& plan, const ModelOptions& options) {
  PeerCopyOptions copies;
  if (options.peer_copy_bytes == 0) return copies;
  DPI_ASSIGN_OR_RETURN(copies.hot, open_hot_keys(bundle, options));
  if (copies.hot == nullptr)
    return invalid_argument(bundle.name() +
                            ": option 'store.peer_copy_bytes' copies the rows that a hot-key list names, and "
                            "there is none: set 'store.hot_keys' (`dpi store hot-keys` writes one)");
  copies.bytes = options.peer_copy_bytes;
  const std::vector<HotTable>& listed = copies.hot->tables();
  for (const PlanTable& t : plan.tables) {
    const int32_t source = t.source >= 0 ? t.source : only_source(t);
    const auto at = std::find_if(listed.begin(), listed.end(), [&](const HotTable& h) {
      return source >= 0 && !h.raw_keys &&
             h.name == bundle.manifest().tables[static_cast<size_t>(source)].name;
    });
    copies.in_list.push_back(at != listed.end() ? static_cast<int32_t>(at - listed.begin()) : -1);
  }
  return copies;
}

}  // namespace dpi
